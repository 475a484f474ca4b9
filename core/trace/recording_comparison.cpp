#include "core/trace/recording_comparison.h"

#include "core/io/counted.h"
#include "core/io/text.h"
#include "core/tensor/convert.h"
#include "core/tensor/unit_roundoff.h"
#include "core/trace/recording_partners.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace whisker {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double difference = std::fabs(a - b);
  return std::isnan(difference) ? infinite : difference;
}

RecordedDifference difference_of(const RecordedValues& a, const RecordedValues& b) {
  RecordedDifference result;
  const auto see = [&](double one, double other, int64_t element) {
    for (const double value : {one, other}) {
      if (std::isfinite(value)) result.largest = std::max(result.largest, std::fabs(value));
    }
    const double apart = distance(one, other);
    if (apart <= result.absolute && element != 0) return;
    result.absolute = apart;
    result.element = element;
    result.a = one;
    result.b = other;
  };
  if (a.all.size() == b.all.size() && !a.all.empty()) {
    for (size_t i = 0; i < a.all.size(); ++i) {
      see(a.all[i], b.all[i], static_cast<int64_t>(i));
      result.zeros += (a.all[i] == 0) != (b.all[i] == 0);
    }
  } else {
    const TensorStatistics one = a.summary(), other = b.summary();
    result.zeros = std::abs(one.zeros - other.zeros);
    see(one.minimum, other.minimum, -1);
    see(one.maximum, other.maximum, -1);
    see(one.mean, other.mean, -1);
    see(one.deviation, other.deviation, -1);
    if (one.not_finite != other.not_finite) result.absolute = infinite;
  }
  return result;
}

std::string tensor_name(const Recording& recording, size_t entry, size_t output) {
  return recording.label(entry) + (output == 0 ? "" : fmt::format(", result {}", output + 1));
}

// Calls `visit(entry, output, gradient)`: values in the order of the step, then gradients.
template <class Visit>
void each_tensor(const Recording& recording, Visit visit) {
  for (size_t i = 0; i < recording.entries.size(); ++i) {
    for (size_t k = 0; k < recording.entries[i].outputs.size(); ++k) visit(i, k, false);
  }
  for (const size_t i : recording.backward_order()) {
    for (size_t k = 0; k < recording.entries[i].outputs.size(); ++k) visit(i, k, true);
  }
}

const RecordedValues& values_of(const TapeOutput& output, bool gradient) {
  return gradient ? output.gradient : output.value;
}

void compare(RecordingComparison& into, const Recording& recording, size_t entry, size_t output,
             bool gradient, DType other_dtype, const RecordedValues& other) {
  const TapeOutput& own = recording.entries[entry].outputs[output];
  const RecordedValues& values = values_of(own, gradient);
  if (!values.known() || !other.known()) return;
  RecordedDifference difference = difference_of(values, other);
  difference.name = tensor_name(recording, entry, output);
  difference.layer = recording.entries[entry].layer;
  difference.gradient = gradient;
  difference.leaf = recording.entries[entry].kind == TapeKind::leaf;
  difference.shape = own.shape;
  if (!gradient && recording.entries[entry].kind != TapeKind::op) difference.zeros = 0;  // given
  into.by_statistics += difference.element < 0;
  for (const DType dtype : {own.dtype, other_dtype}) {
    if (is_floating(dtype) && unit_roundoff(dtype) > unit_roundoff(into.dtype)) into.dtype = dtype;
  }
  into.tensors.push_back(std::move(difference));
}

// Once the coarsest type is known. Gradients of leaves are compared on one scale: one that is 0 but
// for rounding, as that of a bias before a batch norm, has none of its own.
void count_units(RecordingComparison& comparison) {
  const auto of_leaf = [](const RecordedDifference& one) { return one.leaf && one.gradient; };
  double largest = 0;
  for (const RecordedDifference& one : comparison.tensors) {
    if (of_leaf(one)) largest = std::max(largest, one.largest);
  }
  for (RecordedDifference& one : comparison.tensors) {
    one.relative = one.absolute == 0 ? 0 : one.absolute / (of_leaf(one) ? largest : one.largest);
    if (std::isnan(one.relative)) one.relative = infinite;
    one.units = one.relative / comparison.unit();
  }
}

// A tensor of a file in the order of `shape`: as it is, or its (N,C,H,W) as (N,H,W,C).
class FileTensor {
 public:
  FileTensor(const SafetensorsTensor& tensor, const Shape& shape) : tensor_(tensor) {
    std::vector<uint64_t> wanted;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      wanted.push_back(static_cast<uint64_t>(shape[axis]));
    }
    plain = tensor.shape == wanted;
    if (wanted.size() != 4) return;
    const std::vector<uint64_t> channels_second = {wanted[0], wanted[3], wanted[1], wanted[2]};
    reordered = tensor.shape == channels_second && wanted[3] * wanted[1] * wanted[2] > 0 &&
                !(plain && (wanted[3] == 1 || wanted[1] * wanted[2] == 1));
  }

  RecordedValues values() const {
    size_t count = 1;
    for (const uint64_t extent : tensor_.shape) count *= static_cast<size_t>(extent);
    std::vector<double> all(count);
    visit(tensor_.dtype, [&]<class T>() {
      for (size_t i = 0; i < count; ++i) {
        T one;
        std::memcpy(&one, tensor_.bytes.data() + source_of(i) * sizeof(T), sizeof(T));
        all[i] = convert<double>(one);
      }
    });
    if (std::ssize(all) <= most_recorded_values) return {.all = std::move(all)};
    return {.all = {}, .statistics = TensorStatistics::of(all)};
  }

  bool plain = false, reordered = false;  // which of the two it may be; the second is taken

 private:
  size_t source_of(size_t i) const {
    if (!reordered) return i;
    const std::vector<uint64_t>& extents = tensor_.shape;
    const size_t c = i % extents[1], pixel = i / extents[1], pixels = extents[2] * extents[3];
    return (pixel / pixels * extents[1] + c) * pixels + pixel % pixels;
  }
  const SafetensorsTensor& tensor_;
};

std::string shown_shape(const std::vector<uint64_t>& shape) {
  return fmt::format("({})", fmt::join(shape, ","));
}

}  // namespace

RecordingComparison RecordingComparison::of(const Recording& a, const Recording& b) {
  RecordingComparison result{.a = a.title, .b = b.title, .tensors = {}, .unmatched = {}};
  const std::vector<std::optional<size_t>> partner = recording_partners(a, b);
  std::vector<bool> taken(b.entries.size(), false);
  each_tensor(a, [&](size_t entry, size_t output, bool gradient) {
    if (!partner[entry]) {
      if (output == 0 && !gradient) {
        result.unmatched.push_back(fmt::format("A alone has {}", printable(a.label(entry))));
      }
      return;
    }
    taken[*partner[entry]] = true;
    const TapeEntry& other = b.entries[*partner[entry]];
    const Shape& shape = a.entries[entry].outputs[output].shape;
    if (output >= other.outputs.size() || other.outputs[output].shape != shape) {
      if (gradient) return;
      ++result.misshapen;
      result.unmatched.push_back(fmt::format(
          "{} is {} in A, {} in B", printable(tensor_name(a, entry, output)), shape,
          output < other.outputs.size() ? other.outputs[output].shape.str() : "no result"));
      return;
    }
    const TapeOutput& of_b = other.outputs[output];
    compare(result, a, entry, output, gradient, of_b.dtype, values_of(of_b, gradient));
  });
  for (size_t i = 0; i < taken.size(); ++i) {
    if (!taken[i]) {
      result.unmatched.push_back(fmt::format("B alone has {}", printable(b.label(i))));
    }
  }
  count_units(result);
  return result;
}

RecordingComparison RecordingComparison::of(const Recording& a, const SafetensorsFile& b) {
  RecordingComparison result{
      .a = a.title,
      .b = fmt::format("{}, {}", printable(b.name()), counted(std::ssize(b.tensors()), "tensor")),
      .tensors = {},
      .unmatched = {}};
  std::map<std::string, size_t> last_of_layer;
  for (size_t i = 0; i < a.entries.size(); ++i) {
    if (a.entries[i].kind == TapeKind::op && !a.entries[i].layer.empty()) {
      last_of_layer[a.entries[i].layer] = i;
    }
  }
  std::map<std::string, bool> used;
  each_tensor(a, [&](size_t entry, size_t output, bool gradient) {
    const TapeOutput& own = a.entries[entry].outputs[output];
    if (output > 0) return;
    std::vector<std::string> names = {a.label(entry)};
    const std::string& layer = a.entries[entry].layer;
    const auto last = last_of_layer.find(layer);
    if (last != last_of_layer.end() && last->second == entry) names.push_back(layer);
    for (const std::string& name : names) {
      const SafetensorsTensor* const tensor = b.find(name + (gradient ? ".grad" : ""));
      if (!tensor) continue;
      used[tensor->name] = true;
      const FileTensor in_order(*tensor, own.shape);
      if (!in_order.plain && !in_order.reordered) {
        ++result.misshapen;
        result.unmatched.push_back(fmt::format("{} is {} in A, {} in B", printable(tensor->name),
                                               own.shape, shown_shape(tensor->shape)));
        continue;
      }
      result.reordered += in_order.reordered;
      result.ambiguous += in_order.reordered && in_order.plain;
      compare(result, a, entry, output, gradient, tensor->dtype, in_order.values());
    }
  });
  if (used.empty()) {
    fail(ErrorKind::checkpoint,
         "study compare: {}: none of its {} has the name of a layer, an operator ('{}'), a "
         "parameter or an input, with or without .grad{}. whisker study trace lists them.",
         b.name(), counted(std::ssize(b.tensors()), "tensor"), a.label(a.entries.size() - 1),
         b.tensors().empty() ? "" : fmt::format("; the first is {}", excerpt(b.tensors()[0].name)));
  }
  for (const SafetensorsTensor& tensor : b.tensors()) {
    if (!used.contains(tensor.name)) {
      result.unmatched.push_back(fmt::format("B alone has {}", printable(tensor.name)));
    }
  }
  count_units(result);
  return result;
}

double RecordingComparison::unit() const {
  return unit_roundoff(dtype);
}

const RecordedDifference* RecordingComparison::first_beyond(double units, bool gradient) const {
  const auto found = std::ranges::find_if(tensors, [&](const RecordedDifference& one) {
    return one.gradient == gradient && one.units > units;
  });
  return found == tensors.end() ? nullptr : &*found;
}

bool RecordingComparison::agrees(double units) const {
  return !tensors.empty() && misshapen == 0 && !first_beyond(units, false) &&
         !first_beyond(units, true);
}

}  // namespace whisker
