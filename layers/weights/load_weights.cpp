// Matching a file's names and shapes with the model's: everything is compared and converted before
// anything is written.
#include "core/io/text.h"
#include "layers/weights/difference_table.h"
#include "layers/weights/tensor_match.h"
#include "layers/weights/weights.h"
#include "layers/weights/wrapped_names.h"

#include <algorithm>
#include <cstring>

namespace whisker {
namespace {

// (O,3,H,W) -> (O,1,H,W): what three equal channels would give, but for their normalisation.
std::vector<float> summed_channels(std::span<const float> values, const Shape& shape) {
  const auto filters = static_cast<size_t>(shape[0]);
  const auto area = static_cast<size_t>(shape[2] * shape[3]);
  std::vector<float> sums(filters * area, 0);
  for (size_t i = 0; i < values.size(); ++i) sums[i / (3 * area) * area + i % area] += values[i];
  return sums;
}

std::vector<float> as_floats(const SafetensorsTensor& tensor) {
  const size_t width = size_of(tensor.dtype);
  std::vector<float> values(tensor.bytes.size() / width);
  visit(tensor.dtype, [&]<class T>() {
    for (size_t i = 0; i < values.size(); ++i) {
      T value;
      std::memcpy(&value, tensor.bytes.data() + i * width, width);
      values[i] = static_cast<float>(value);
    }
  });
  return values;
}

int64_t read_batch_count(const SafetensorsTensor& tensor) {
  int64_t count = 0;
  if (tensor.dtype == DType::i64 && tensor.bytes.size() == sizeof(count)) {
    std::memcpy(&count, tensor.bytes.data(), sizeof(count));
  }
  return std::max<int64_t>(count, 0);
}

// A slip in a pattern would load what was to start afresh.
void check_patterns(const LoadOptions& options, const ParameterList& parameters,
                    const TensorsByName& tensors, const SafetensorsFile& file) {
  for (const std::string& pattern : options.skip) {
    const auto chosen = [&](const std::string& name) { return selects(pattern, name); };
    if (std::ranges::any_of(parameters, [&](const auto& p) { return chosen(p->name()); })) continue;
    if (std::ranges::any_of(tensors, [&](const auto& t) { return chosen(t.first); })) continue;
    fail(ErrorKind::usage,
         "init.skip: '{}' matches no parameter of the model and no tensor of {}. `whisker summary` "
         "lists the names.",
         pattern, file.name());
  }
}

}  // namespace

std::vector<std::string> LoadReport::notes(const std::string& file) const {
  std::vector<std::string> notes;
  const std::string name = printable(file);
  if (!beside.empty()) {
    constexpr size_t most = 4;
    std::string some;
    for (size_t i = 0; i < std::min(beside.size(), most); ++i) {
      some += fmt::format("{}{}", i == 0 ? "" : ", ", excerpt(beside[i]));
    }
    if (beside.size() > most) some += fmt::format(" and {} more", beside.size() - most);
    notes.push_back(fmt::format(
        "{}: {} tensors beside the network are left out: {}; --weights-key PREFIX reads others",
        name, beside.size(), some));
  }
  if (!summed_to_gray.empty()) {
    notes.push_back(fmt::format(
        "{}: {} is for RGB images and is summed over its three channels, as the images are gray; "
        "channels: 3 reads gray images as RGB",
        name, printable(summed_to_gray)));
  }
  return notes;
}

LoadReport load_weights(const SafetensorsFile& file, const Model& model, ParameterArena& arena,
                        const LoadOptions& options) {
  const ParameterList& parameters = arena.parameters();
  LoadReport report;
  TensorsByName tensors = tensors_by_name(file, parameters, &report.beside);
  check_patterns(options, parameters, tensors, file);
  std::vector<TensorDifference> differences;
  std::vector<std::pair<const Parameter*, const SafetensorsTensor*>> matches;
  std::vector<TensorDifference> other_extent;  // a head's
  size_t of_other_classes = 0;

  for (const auto& parameter : parameters) {
    const std::string& name = parameter->name();
    const auto found = tensors.find(name);
    const SafetensorsTensor* tensor = found == tensors.end() ? nullptr : found->second;
    if (tensor) tensors.erase(found);
    const Shape shape = file_shape(*parameter);
    if (any_selects(options.skip, name)) {
      report.skipped.push_back(name);
    } else if (!tensor) {
      differences.push_back(
          {"missing", name, fmt::format("model {}", shape), {shape.begin(), shape.end()}, true});
    } else if (!is_floating(tensor->dtype)) {
      differences.push_back(
          {"misshaped", name, fmt::format("file {}, model floating", tensor->dtype)});
    } else {
      const bool of_head = any_selects(model.head, name);
      const bool head = options.allow_new_head && of_head;
      const bool fit = tensor_fits(*tensor, *parameter);
      const TensorDifference difference{
          "misshaped", name, fmt::format("file {}, model {}", shape_text(tensor->shape), shape)};
      if (fit && head && options.other_classes) {
        report.new_head.push_back(name);
      } else if (fit) {
        matches.emplace_back(parameter.get(), tensor);
      } else if (sums_to_gray(*tensor, *parameter, model)) {
        matches.emplace_back(parameter.get(), tensor);
        report.summed_to_gray = name;
      } else {
        const bool other_classes = of_head && differs_in_classes(*tensor, *parameter);
        of_other_classes += other_classes ? 1 : 0;
        (other_classes && head ? other_extent : differences).push_back(difference);
      }
    }
  }
  for (const auto& [name, tensor] : tensors) {
    if (is_counter(name)) {
      report.batches_tracked = std::max(report.batches_tracked, read_batch_count(*tensor));
    } else if (!any_selects(options.skip, name)) {
      differences.push_back({"unexpected", name, fmt::format("file {}", shape_text(tensor->shape)),
                             tensor->shape, true});
    }
  }
  if (!differences.empty()) {
    differences.insert(differences.end(), other_extent.begin(), other_extent.end());
    fail_with_table(file, differences, of_other_classes == differences.size());
  }
  for (const auto& match : matches) check_finite(file, *match.second);
  for (const auto& [parameter, tensor] : matches) {
    std::vector<float> values = as_floats(*tensor);
    if (parameter->name() == report.summed_to_gray) {
      values = summed_channels(values, file_shape(*parameter));
    }
    arena.write(*parameter, from_file_order(*parameter, values));
    ++report.loaded;
  }
  for (const TensorDifference& other : other_extent) report.new_head.push_back(other.name);
  if (!other_extent.empty()) report.new_head_shapes = other_extent[0].detail;
  return report;
}

}  // namespace whisker
