#include "core/trace/recorded_values.h"

#include <algorithm>

namespace whisker {
namespace {

// In nested brackets, from element `at` on; stops once the text is longer than `width`.
void nested(const std::vector<double>& values, const Shape& shape, int axis, size_t& at,
            size_t width, std::string& text) {
  if (axis == shape.rank()) {
    text += fmt::format("{:.4g}", values[at++]);
    return;
  }
  text += '[';
  for (int64_t i = 0; i < shape[axis] && text.size() <= width; ++i) {
    if (i > 0) text += ", ";
    nested(values, shape, axis + 1, at, width, text);
  }
  text += ']';
}

std::string statistics_text(const TensorStatistics& s) {
  std::string text = fmt::format("mean {:.4g}, deviation {:.4g}, {:.4g} to {:.4g}, norm {:.4g}",
                                 s.mean, s.deviation, s.minimum, s.maximum, s.norm);
  if (s.zeros > 0) text += fmt::format(", {} zeros", s.zeros);
  if (s.not_finite > 0) text += fmt::format(", {} not finite", s.not_finite);
  return text;
}

// One of eight heights for each bin.
std::string histogram_text(const TensorStatistics& s) {
  constexpr std::string_view bars[] = {" ",      "\u2581", "\u2582", "\u2583", "\u2584",
                                       "\u2585", "\u2586", "\u2587", "\u2588"};
  const int64_t most =
      std::max<int64_t>(1, *std::max_element(s.histogram.begin(), s.histogram.end()));
  std::string text;
  for (const int64_t count : s.histogram) {
    const double height = 8 * static_cast<double>(count) / static_cast<double>(most);
    text += bars[static_cast<size_t>(std::clamp(std::ceil(height), 0.0, 8.0))];
  }
  return text;
}

std::string exact(double value, DType dtype) {
  if (dtype == DType::f64) return fmt::format("{}", value);
  if (is_floating(dtype)) return fmt::format("{}", static_cast<float>(value));
  return fmt::format("{:.0f}", value);
}

const char* without_values(const Shape& shape) {
  return shape.count() == 0 ? "empty" : "not recorded";
}

}  // namespace

std::string brief_values(const RecordedValues& values, const Shape& shape, size_t width) {
  if (values.statistics) return statistics_text(*values.statistics);
  if (values.all.empty()) return without_values(shape);
  std::string text;
  size_t at = 0;
  nested(values.all, shape, 0, at, width, text);
  if (text.size() <= width) return text;
  const std::string end = fmt::format(", ... {} values", values.all.size());
  text.clear();
  for (const double value : values.all) {
    const std::string next = fmt::format("{}{:.4g}", text.empty() ? "" : ", ", value);
    if (text.size() + next.size() + end.size() > width && !text.empty()) break;
    text += next;
  }
  return text + end;
}

std::vector<std::string> all_values(const RecordedValues& values, const Shape& shape, DType dtype) {
  if (values.statistics) {
    return {statistics_text(*values.statistics),
            fmt::format("{:.4g} |{}| {:.4g}", values.statistics->minimum,
                        histogram_text(*values.statistics), values.statistics->maximum)};
  }
  if (values.all.empty()) return {without_values(shape)};
  const int64_t row = shape.rank() > 0 ? shape[-1] : 1;
  std::vector<std::string> lines;
  for (size_t i = 0; i < values.all.size(); ++i) {
    const auto element = static_cast<int64_t>(i);
    if (element % row == 0) {
      std::string index;
      int64_t rest = element / row;
      for (int axis = shape.rank() - 1; axis-- > 0;) {
        index = fmt::format("{},{}", rest % shape[axis], index);
        rest /= shape[axis];
      }
      lines.push_back(shape.rank() > 1 ? fmt::format("[{}:]", index) : std::string());
    }
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += exact(values.all[i], dtype);
  }
  return lines;
}

}  // namespace whisker
