// Axis orders, and the list of tensors to write.
#include "layers/weights/weights.h"

#include <algorithm>

namespace whisker {
namespace {

// A (rows, a, b) block of values read as (rows, b, a).
std::vector<float> swap_inner(std::span<const float> values, int64_t a, int64_t b) {
  std::vector<float> result(values.size());
  const auto width = static_cast<size_t>(a * b);
  for (size_t row = 0; width > 0 && row < values.size(); row += width) {
    const float* from = values.data() + row;
    float* to = result.data() + row;
    for (int64_t i = 0; i < a; ++i) {
      for (int64_t j = 0; j < b; ++j) to[j * a + i] = from[i * b + j];
    }
  }
  return result;
}

// Memory holds (rows, places, channels), files hold (rows, channels, places).
struct Order {
  int64_t places = 1, channels = 1;
};
Order order_of(const Parameter& parameter) {
  const Shape& shape = parameter.shape();
  if (parameter.role() == ParameterRole::conv_weight) {
    return {.places = shape[1] * shape[2], .channels = shape[3]};
  }
  if (const int64_t channels = parameter.flattened_channels; channels > 0) {
    return {.places = shape[-1] / channels, .channels = channels};
  }
  return {};
}

void check_count(const Parameter& parameter, std::span<const float> values) {
  if (static_cast<int64_t>(values.size()) == parameter.shape().count()) return;
  fail(ErrorKind::usage, "{}: expected {} values for shape {}, got {}", parameter.name(),
       parameter.shape().count(), parameter.shape(), values.size());
}

constexpr std::string_view running_mean = ".running_mean";

}  // namespace

Shape file_shape(const Parameter& parameter) {
  const Shape& shape = parameter.shape();
  if (parameter.role() != ParameterRole::conv_weight) return shape;
  return {shape[0], shape[3], shape[1], shape[2]};
}

std::vector<float> to_file_order(const Parameter& parameter, std::span<const float> memory) {
  check_count(parameter, memory);
  const Order order = order_of(parameter);
  return swap_inner(memory, order.places, order.channels);
}

std::vector<float> from_file_order(const Parameter& parameter, std::span<const float> file) {
  check_count(parameter, file);
  const Order order = order_of(parameter);
  return swap_inner(file, order.channels, order.places);
}

std::vector<WeightsTensor> state_dict(const ParameterArena& arena, int64_t batches_tracked) {
  std::vector<WeightsTensor> tensors;
  const auto add = [&](std::string name, DType dtype, const Shape& shape, auto values) {
    const auto bytes = std::as_bytes(values);
    tensors.push_back({.name = std::move(name),
                       .dtype = dtype,
                       .shape = {shape.begin(), shape.end()},
                       .bytes = {bytes.begin(), bytes.end()}});
  };
  for (const auto& parameter : arena.parameters()) {
    const std::vector<float> values = to_file_order(*parameter, arena.read(*parameter));
    add(parameter->name(), DType::f32, file_shape(*parameter), std::span<const float>(values));
    const std::string& name = parameter->name();
    if (!parameter->is_buffer() || !name.ends_with(running_mean)) continue;
    add(name.substr(0, name.size() - running_mean.size()) + ".num_batches_tracked", DType::i64, {},
        std::span<const int64_t>(&batches_tracked, 1));
  }
  return tensors;
}

std::vector<SafetensorsEntry> entries_of(const std::vector<WeightsTensor>& tensors) {
  std::vector<SafetensorsEntry> entries;
  entries.reserve(tensors.size());
  for (const WeightsTensor& tensor : tensors) {
    entries.push_back(
        {.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .bytes = [&tensor] {
           return std::span<const std::byte>(tensor.bytes);
         }});
  }
  return entries;
}

}  // namespace whisker
