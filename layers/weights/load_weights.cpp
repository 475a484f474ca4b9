// Matching a file's names and shapes with the model's: everything is compared and converted before
// anything is written.
#include "core/io/text.h"
#include "layers/weights/tensor_names.h"
#include "layers/weights/weights.h"
#include "layers/weights/wrapped_names.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

namespace whisker {
namespace {

constexpr size_t most_rows = 10'000;  // of the table of differences
constexpr uint64_t most_classes = 1'000'000;
constexpr size_t most_nearest = 2000;  // rows whose nearest names are looked for

std::string shape_text(const std::vector<uint64_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ","));
}

bool selected(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return selects(pattern, name); });
}

// The file's tensors under the names that the model may know.
using Tensors = std::map<std::string, const SafetensorsTensor*, std::less<>>;

std::vector<std::string> bare_names(const SafetensorsFile& file) {
  std::vector<std::string> names;
  for (const SafetensorsTensor& tensor : file.tensors()) {
    names.push_back(bare_tensor_name(tensor.name));
  }
  return names;
}

// Of those that stand beside the network, the names are added to `beside`.
Tensors tensors_by_name(const SafetensorsFile& file, const ParameterList& parameters,
                        std::vector<std::string>* beside = nullptr) {
  std::set<std::string_view> known;
  for (const auto& parameter : parameters) known.insert(parameter->name());
  const std::vector<std::string> names =
      unwrapped_names(bare_names(file), [&](std::string_view name) {
        return known.contains(name);
      }).names;
  Tensors tensors;
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

// Equal, the same vector, or a dense weight stored as the convolution (units, channels, height,
// width) it equals.
bool fits(const SafetensorsTensor& tensor, const Parameter& parameter) {
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

// The first convolution of a network on gray images, stored for red, green and blue.
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

// (O,3,H,W) -> (O,1,H,W): what three equal channels would give, but for their normalisation.
std::vector<float> summed_channels(std::span<const float> values, const Shape& shape) {
  const auto filters = static_cast<size_t>(shape[0]);
  const auto area = static_cast<size_t>(shape[2] * shape[3]);
  std::vector<float> sums(filters * area, 0);
  for (size_t i = 0; i < values.size(); ++i) sums[i / (3 * area) * area + i % area] += values[i];
  return sums;
}

// Same but for the number of outputs.
bool differs_in_classes(const SafetensorsTensor& tensor, const Parameter& parameter) {
  const Shape shape = file_shape(parameter);
  if (tensor.shape.size() != static_cast<size_t>(shape.rank()) || shape.rank() == 0) return false;
  return std::equal(tensor.shape.begin() + 1, tensor.shape.end(), shape.begin() + 1,
                    [](uint64_t a, int64_t b) { return a == static_cast<uint64_t>(b); });
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

struct Difference {
  const char* kind;
  std::string name;
  std::string detail;
  std::vector<uint64_t> shape = {};  // of what has no counterpart: the nearest name of it helps
  bool alone = false;
};

// "conv1" and ".weight".
std::pair<std::string_view, std::string_view> split_last(std::string_view name) {
  const size_t dot = std::min(name.rfind('.'), name.size());
  return {name.substr(0, dot), name.substr(dot)};
}

// The name of another kind that this one may be a slip of: the same part of a layer, of the same
// shape. Missing names are compared with the unexpected ones and the reverse.
const Difference* nearest_to(const Difference& one, const std::vector<Difference>& all) {
  const auto [layer, part] = split_last(one.name);
  std::vector<std::string> layers;
  std::vector<const Difference*> candidates;
  for (const Difference& other : all) {
    const auto [other_layer, other_part] = split_last(other.name);
    if (!other.alone || std::string_view(other.kind) == one.kind || other_part != part ||
        other.shape != one.shape) {
      continue;
    }
    layers.emplace_back(other_layer);
    candidates.push_back(&other);
  }
  const std::string nearest = nearest_name(layer, layers);
  const auto found = std::ranges::find(layers, nearest);
  return found == layers.end() ? nullptr : candidates[static_cast<size_t>(found - layers.begin())];
}

[[noreturn]] void fail_with_table(const SafetensorsFile& file,
                                  const std::vector<Difference>& differences) {
  const auto count = [&](std::string_view kind) {
    return std::count_if(differences.begin(), differences.end(),
                         [&](const Difference& d) { return d.kind == kind; });
  };
  size_t width = 0;
  for (const Difference& d : differences) {
    width = std::max(width, std::min<size_t>(d.name.size(), 60));
  }
  const bool seek = differences.size() <= most_nearest;
  std::string table;
  for (size_t i = 0; i < std::min(differences.size(), most_rows); ++i) {
    const Difference& d = differences[i];
    table += fmt::format("\n  {:<10}  {:<{}}  {}", d.kind, printable(d.name), width, d.detail);
    const Difference* nearest = seek && d.alone ? nearest_to(d, differences) : nullptr;
    if (nearest && nearest_to(*nearest, differences) == &d) {
      table += fmt::format("  nearest: {}", printable(nearest->name));
    }
  }
  if (differences.size() > most_rows) {
    table += fmt::format("\n  and {} more", differences.size() - most_rows);
  }
  fail(ErrorKind::checkpoint,
       "{}: does not fit the model: {} missing, {} unexpected, {} misshaped; nothing was loaded. "
       "Check model; init.skip takes patterns of names to leave out.{}",
       file.name(), count("missing"), count("unexpected"), count("misshaped"), MessageLines{table});
}

// A slip in a pattern would load what was to start afresh.
void check_patterns(const LoadOptions& options, const ParameterList& parameters,
                    const Tensors& tensors, const SafetensorsFile& file) {
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

std::optional<int64_t> classes_that_fit(const SafetensorsFile& file, const Model& model) {
  const ParameterList parameters = model.net->parameters();
  if (!may_hold(bare_names(file), std::ssize(parameters))) return std::nullopt;
  Tensors tensors = tensors_by_name(file, parameters);
  std::optional<int64_t> classes;
  for (const auto& parameter : parameters) {
    const auto found = tensors.find(parameter->name());
    if (found == tensors.end() || !is_floating(found->second->dtype)) return std::nullopt;
    const SafetensorsTensor& tensor = *found->second;
    tensors.erase(found);
    if (!selected(model.head, parameter->name())) {
      if (!fits(tensor, *parameter)) return std::nullopt;
      continue;
    }
    const bool fit = fits(tensor, *parameter) || differs_in_classes(tensor, *parameter);
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
  Tensors tensors = tensors_by_name(file, parameters);
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
    const bool head = selected(model.head, name) && differs_in_classes(tensor, *parameter);
    if (is_floating(tensor.dtype) && (head || fits(tensor, *parameter))) {
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
  Tensors tensors = tensors_by_name(file, parameters, &report.beside);
  check_patterns(options, parameters, tensors, file);
  std::vector<Difference> differences;
  std::vector<std::pair<const Parameter*, const SafetensorsTensor*>> matches;
  std::vector<Difference> other_extent;  // a head's

  for (const auto& parameter : parameters) {
    const std::string& name = parameter->name();
    const auto found = tensors.find(name);
    const SafetensorsTensor* tensor = found == tensors.end() ? nullptr : found->second;
    if (tensor) tensors.erase(found);
    const Shape shape = file_shape(*parameter);
    if (selected(options.skip, name)) {
      report.skipped.push_back(name);
    } else if (!tensor) {
      differences.push_back(
          {"missing", name, fmt::format("model {}", shape), {shape.begin(), shape.end()}, true});
    } else if (!is_floating(tensor->dtype)) {
      differences.push_back(
          {"misshaped", name, fmt::format("file {}, model floating", tensor->dtype)});
    } else {
      const bool head = options.allow_new_head && selected(model.head, name);
      const bool fit = fits(*tensor, *parameter);
      const Difference difference{
          "misshaped", name, fmt::format("file {}, model {}", shape_text(tensor->shape), shape)};
      if (fit && head && options.other_classes) {
        report.new_head.push_back(name);
      } else if (fit) {
        matches.emplace_back(parameter.get(), tensor);
      } else if (sums_to_gray(*tensor, *parameter, model)) {
        matches.emplace_back(parameter.get(), tensor);
        report.summed_to_gray = name;
      } else {
        const bool new_head = head && differs_in_classes(*tensor, *parameter);
        (new_head ? other_extent : differences).push_back(difference);
      }
    }
  }
  for (const auto& [name, tensor] : tensors) {
    if (is_counter(name)) {
      report.batches_tracked = std::max(report.batches_tracked, read_batch_count(*tensor));
    } else if (!selected(options.skip, name)) {
      differences.push_back({"unexpected", name, fmt::format("file {}", shape_text(tensor->shape)),
                             tensor->shape, true});
    }
  }
  if (!differences.empty()) {
    differences.insert(differences.end(), other_extent.begin(), other_extent.end());
    fail_with_table(file, differences);
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
  for (const Difference& difference : other_extent) report.new_head.push_back(difference.name);
  return report;
}

}  // namespace whisker
