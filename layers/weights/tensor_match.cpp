#include "layers/weights/tensor_match.h"

#include "core/io/text.h"
#include "core/io/torch_checkpoint.h"
#include "layers/weights/tensor_names.h"
#include "layers/weights/wrapped_names.h"

#include <algorithm>
#include <set>

namespace whisker {
namespace {

bool same_extents(const std::vector<uint64_t>& stored, const Shape& shape) {
  return std::equal(stored.begin(), stored.end(), shape.begin(), shape.end(),
                    [](uint64_t a, int64_t b) { return a == static_cast<uint64_t>(b); });
}

// Both (C), but for axes of extent 1: ConvNeXt's factors are (C,1,1) in torchvision, (C) in timm.
bool same_vector(const std::vector<uint64_t>& stored, const Shape& shape) {
  const auto is_vector = [](const auto& extents) {
    return std::ranges::count_if(extents, [](auto extent) { return extent != 1; }) == 1;
  };
  return is_vector(stored) && is_vector(shape) &&
         *std::ranges::max_element(stored) == static_cast<uint64_t>(shape.count());
}

// Networks beside each other: a student and its teacher, a model and its average.
[[noreturn]] void refuse_to_choose(const SafetensorsFile& file,
                                   const std::vector<std::string>& prefixes) {
  const std::vector<std::string> names = bare_names(file);
  std::string readings;
  for (const std::string& prefix : prefixes) {
    const auto count = std::ranges::count_if(
        names, [&](const std::string& name) { return name.starts_with(prefix); });
    readings += fmt::format("{}{} ({} tensors)", readings.empty() ? "" : " or ",
                            excerpt(prefix.substr(0, prefix.size() - 1)), count);
  }
  fail(ErrorKind::checkpoint, "{}: its weights may be {}: {} says which.", file.name(), readings,
       weights_key_option);
}

}  // namespace

std::string shape_text(const std::vector<uint64_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ","));
}

bool any_selects(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return selects(pattern, name); });
}

std::vector<std::string> bare_names(const SafetensorsFile& file) {
  std::vector<std::string> names;
  for (const SafetensorsTensor& tensor : file.tensors()) {
    names.push_back(bare_tensor_name(tensor.name));
  }
  return names;
}

TensorsByName tensors_by_name(const SafetensorsFile& file, const ParameterList& parameters,
                              std::vector<std::string>* beside) {
  std::set<std::string_view> known;
  for (const auto& parameter : parameters) known.insert(parameter->name());
  const UnwrappedNames unwrapped = unwrapped_names(
      bare_names(file), [&](std::string_view name) { return known.contains(name); });
  if (unwrapped.tied_names == std::ssize(parameters) && !parameters.empty()) {
    refuse_to_choose(file, unwrapped.tied);
  }
  const std::vector<std::string>& names = unwrapped.names;
  TensorsByName tensors;
  for (size_t i = 0; i < names.size(); ++i) {
    const SafetensorsTensor& tensor = file.tensors()[i];
    if (names[i].empty() || is_average_count(names[i])) {
      if (beside && !tensor.name.ends_with("num_batches_tracked")) beside->push_back(tensor.name);
      continue;
    }
    if (!tensors.emplace(names[i], &tensor).second) {
      fail(ErrorKind::checkpoint, "{}: two tensors stand for '{}' (one is '{}'); keep one of them",
           file.name(), names[i], tensor.name);
    }
  }
  return tensors;
}

bool tensor_fits(const SafetensorsTensor& tensor, const Parameter& parameter) {
  const Shape shape = file_shape(parameter);
  if (same_extents(tensor.shape, shape)) return true;
  const bool is_matrix =
      parameter.role() == ParameterRole::weight || parameter.role() == ParameterRole::conv_weight;
  if (!is_matrix && same_vector(tensor.shape, shape)) return true;
  if (parameter.role() != ParameterRole::weight || shape.rank() != 2 || tensor.shape.size() != 4) {
    return false;
  }
  const auto inputs = static_cast<uint64_t>(shape[1]);
  const auto channels = static_cast<uint64_t>(
      parameter.flattened_channels > 0 ? parameter.flattened_channels : shape[1]);
  return tensor.shape[0] == static_cast<uint64_t>(shape[0]) && tensor.shape[1] == channels &&
         tensor.bytes.size() == inputs * tensor.shape[0] * size_of(tensor.dtype);
}

bool sums_to_gray(const SafetensorsTensor& tensor, const Parameter& parameter, const Model& model) {
  if (model.input.rank() != 4 || model.input[3] != 1) return false;
  const auto& parameters = model.net->parameters();
  const auto first = std::ranges::find_if(
      parameters, [](const auto& one) { return one->role() == ParameterRole::conv_weight; });
  if (first == parameters.end() || first->get() != &parameter) return false;
  std::vector<uint64_t> shape = tensor.shape;
  if (shape.size() != 4 || shape[1] != 3) return false;
  shape[1] = 1;
  return same_extents(shape, file_shape(parameter));
}

bool differs_in_classes(const SafetensorsTensor& tensor, const Parameter& parameter) {
  const Shape shape = file_shape(parameter);
  if (tensor.shape.size() != static_cast<size_t>(shape.rank()) || shape.rank() == 0) return false;
  return std::equal(tensor.shape.begin() + 1, tensor.shape.end(), shape.begin() + 1,
                    [](uint64_t a, int64_t b) { return a == static_cast<uint64_t>(b); });
}

}  // namespace whisker
