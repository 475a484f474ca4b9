// How a file's tensors differ from a model's, and what they say of its classes.
#include "core/io/text.h"
#include "layers/weights/tensor_match.h"
#include "layers/weights/weights.h"
#include "layers/weights/wrapped_names.h"

#include <algorithm>

namespace whisker {
namespace {

constexpr uint64_t most_classes = 1'000'000;

}  // namespace

std::optional<int64_t> classes_that_fit(const SafetensorsFile& file, const Model& model) {
  const ParameterList parameters = model.net->parameters();
  if (!may_hold(bare_names(file), std::ssize(parameters))) return std::nullopt;
  TensorsByName tensors = tensors_by_name(file, parameters);
  std::optional<int64_t> classes;
  for (const auto& parameter : parameters) {
    const auto found = tensors.find(parameter->name());
    if (found == tensors.end() || !is_floating(found->second->dtype)) return std::nullopt;
    const SafetensorsTensor& tensor = *found->second;
    tensors.erase(found);
    if (!any_selects(model.head, parameter->name())) {
      if (!tensor_fits(tensor, *parameter)) return std::nullopt;
      continue;
    }
    const bool fit = tensor_fits(tensor, *parameter) || differs_in_classes(tensor, *parameter);
    if (!fit || tensor.shape[0] > most_classes) return std::nullopt;
    const auto units = static_cast<int64_t>(tensor.shape[0]);
    if (units < 1 || classes.value_or(units) != units) return std::nullopt;
    classes = units;
  }
  const bool all = std::ranges::all_of(tensors, [](const auto& t) { return is_counter(t.first); });
  return all ? classes : std::nullopt;
}

WeightsDifference difference_of_weights(const SafetensorsFile& file, const Model& model) {
  const ParameterList parameters = model.net->parameters();
  TensorsByName tensors = tensors_by_name(file, parameters);
  WeightsDifference difference;
  difference.parameters = std::ssize(parameters);
  const auto differs = [&](std::string text) {
    if (difference.first.empty()) difference.first = std::move(text);
  };
  for (const auto& parameter : parameters) {
    const std::string& name = parameter->name();
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
      differs(fmt::format("{} is missing", name));
      continue;
    }
    const SafetensorsTensor& tensor = *found->second;
    const bool head = any_selects(model.head, name) && differs_in_classes(tensor, *parameter);
    if (is_floating(tensor.dtype) && (head || tensor_fits(tensor, *parameter))) {
      ++difference.fitting;
    } else {
      differs(fmt::format("{} is {} in the file, {} in the network", name, shape_text(tensor.shape),
                          file_shape(*parameter)));
    }
    tensors.erase(found);
  }
  std::erase_if(tensors, [](const auto& tensor) { return is_counter(tensor.first); });
  difference.others = std::ssize(tensors);
  if (!tensors.empty()) {
    differs(fmt::format("{} is in the file alone", printable(tensors.begin()->first)));
  }
  return difference;
}

}  // namespace whisker
