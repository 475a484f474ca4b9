#include "apps/study/grading/exercise.h"

#include "core/autograd/autograd.h"
#include "core/ops/ops.h"
#include "core/tensor/philox.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace whisker {
namespace {

constexpr TensorOptions exact{.dtype = DType::f64, .device = reference_device};

constexpr std::pair<std::string_view, AnswerParameterKind> parameter_types[] = {
    {"View<const T>", AnswerParameterKind::tensor},
    {"View<const int>", AnswerParameterKind::labels},
    {"View<T>", AnswerParameterKind::result},
    {"T&", AnswerParameterKind::scalar_result},
    {"T", AnswerParameterKind::number},
    {"int", AnswerParameterKind::whole}};

// What the answer gets in float.
Tensor rounded(const Tensor& x, bool in_double) {
  return in_double || x.dtype() != DType::f64 ? x : x.to(DType::f32).to(DType::f64);
}

Tensor drawn(std::string_view name, const Shape& shape, uint64_t seed, bool in_double) {
  return rounded(rand_normal(shape, 0, 1, seed, stream_of(name), exact), in_double);
}

double weighted_result(const Exercise& exercise, const Values& values) {
  const Tensor y = exercise.forward(values);
  return (values.has("dy") ? sum(y * values["dy"]) : sum(y)).item();
}

}  // namespace

const Tensor& Values::operator[](std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) {
    fail(ErrorKind::internal, "study grade: the problem has no value '{}'.", name);
  }
  return found->second;
}

std::string_view function_name(const Exercise& exercise) {
  return exercise.signature.substr(0, exercise.signature.find('('));
}

std::vector<AnswerParameter> parameters_of(const Exercise& exercise) {
  const size_t open = exercise.signature.find('(');
  std::string_view rest = exercise.signature.substr(open + 1);
  rest.remove_suffix(1);
  std::vector<AnswerParameter> parameters;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    std::string_view one = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    one.remove_prefix(one.find_first_not_of(' '));
    const size_t blank = one.rfind(' ');
    const std::string_view type = one.substr(0, blank);
    const auto found =
        std::ranges::find(parameter_types, type, [](const auto& row) { return row.first; });
    if (found == std::ranges::end(parameter_types)) {
      fail(ErrorKind::internal, "exercise {}: no parameter has the type '{}'.", exercise.name,
           type);
    }
    parameters.push_back({found->second, std::string(type), std::string(one.substr(blank + 1))});
  }
  return parameters;
}

Tensor engine_gradient(const Exercise& exercise, const Values& values, std::string_view x) {
  Values leaves = values;
  const Tensor leaf = values[x].clone().set_requires_grad();
  leaves.set(std::string(x), leaf);
  BackwardOptions options;
  if (values.has("dy")) options.gradient = values["dy"];
  const Tensor gradient = grad(exercise.forward(leaves), {{leaf}}, options)[0];
  return gradient.defined() ? gradient : zeros(leaf.shape(), exact);
}

double finite_difference(const Exercise& exercise, const Values& values, std::string_view x,
                         int64_t element) {
  constexpr double step = 1e-5;
  const auto shifted = [&](double by) {
    Values moved = values;
    const Tensor copy = values[x].clone();
    copy.data<double>()[static_cast<size_t>(element)] += by;
    moved.set(std::string(x), copy);
    return weighted_result(exercise, moved);
  };
  return (shifted(step) - shifted(-step)) / (2 * step);
}

std::vector<Problem> problems_of(const Exercise& exercise) {
  const std::vector<AnswerParameter> parameters = parameters_of(exercise);
  const bool takes_dy =
      std::ranges::find(parameters, "dy", &AnswerParameter::name) != parameters.end();
  std::vector<Problem> problems;
  for (const bool in_double : {true, false}) {
    if (in_double && !exercise.in_double) continue;
    for (const Setup& setup : exercise.setups) {
      for (uint64_t seed = 1; seed <= seeds_of_a_setup; ++seed) {
        Problem problem{
            .setup = &setup, .seed = seed, .in_double = in_double, .values = {}, .right = {}};
        for (const auto& [name, shape] : setup.tensors) {
          problem.values.set(std::string(name), drawn(name, shape, seed, in_double));
        }
        for (const auto& [name, number] : setup.numbers) {
          problem.values.set(std::string(name), full({}, number, exact));
        }
        if (exercise.prepare) exercise.prepare(problem.values, seed);
        if (takes_dy && !problem.values.has("dy")) {
          const Shape shape = exercise.forward(problem.values).shape();
          problem.values.set("dy", drawn("dy", shape, seed, in_double));
        }
        for (const AnswerParameter& parameter : parameters) {
          if (!parameter.is_result()) continue;
          problem.right.emplace_back(
              parameter.name, exercise.expected
                                  ? exercise.expected(problem.values, parameter.name)
                                  : engine_gradient(exercise, problem.values,
                                                    std::string_view(parameter.name).substr(1)));
        }
        problems.push_back(std::move(problem));
      }
    }
  }
  return problems;
}

}  // namespace whisker
