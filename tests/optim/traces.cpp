#include "tests/optim/traces.h"

#include "core/ops/ops.h"

#include <cmath>

namespace whisker::traces {

const JsonValue& file() {
  static const JsonValue parsed = test::json_fixture(WHISKER_OPTIMIZER_TRACES);
  return parsed;
}

double number_or(const JsonValue& object, std::string_view key, double fallback) {
  const JsonValue* found = object.find(key);
  return found ? found->as_double() : fallback;
}

std::vector<double> gradient(int t) {
  static constexpr double scale[parameter_count] = {1, 0.1, 10, 1e-3, 1e-6, 1e-8, 0};
  std::vector<double> values;
  for (int i = 0; i < parameter_count; ++i) {
    values.push_back(scale[i] * std::sin(0.9 * (i + 1) + 0.5 * t));
  }
  return values;
}

namespace {

std::shared_ptr<Parameter> make_parameter() {
  auto parameter = std::make_shared<Parameter>(
      Shape{parameter_count}, ParameterRole::weight, [](uint64_t, uint64_t, std::span<float> out) {
        for (size_t i = 0; i < out.size(); ++i) {
          out[i] = static_cast<float>(0.8 - 0.25 * static_cast<double>(i));
        }
      });
  parameter->set_name("w");
  return parameter;
}

}  // namespace

Model::Model(Device device, DType dtype)
    : parameter(make_parameter()), arena({parameter}, device, 0, {.master = dtype}) {
  // Exactly the script's doubles, where the dtype can hold them.
  const Tensor& value = parameter->value();
  std::vector<double> exact;
  for (int i = 0; i < parameter_count; ++i) exact.push_back(0.8 - 0.25 * i);
  value.copy_(from_vector(exact, value.shape(), value.options()));
}

void Model::set_gradient(int t) {
  arena.zero_grad();
  const Tensor weights = from_vector(gradient(t), parameter->shape(), parameter->value().options());
  backward(sum(parameter->value() * weights));
}

std::vector<double> Model::values() const {
  return parameter->value().to_vector();
}

}  // namespace whisker::traces
