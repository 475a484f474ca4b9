// Series are told apart by colour and, for those who see none, by dashes, the shape of points and
// the order of the legend, which is that of stacked areas.
#include "core/draw/chart.h"

#include "core/draw/chart_scale.h"
#include "core/draw/markup.h"
#include "core/error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace whisker {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr double font = 11;

struct Rect {
  double left, top, right, bottom;
  bool meets(const Rect& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

class ChartDrawing {
 public:
  explicit ChartDrawing(const Chart& chart) : chart_(chart) {
    for (const ChartSeries& one : chart.series) {
      const bool fits =
          one.x.size() == one.y.size() && (one.labels.empty() || one.labels.size() == one.x.size());
      if (!fits)
        fail(ErrorKind::internal, "chart_svg: {}: x, y and labels differ in number", one.name);
      tops_.push_back(one.y);
      if (one.kind != SeriesKind::area) continue;
      if (below_.empty()) below_.assign(one.x.size(), 0), area_x_ = &one.x;
      if (*area_x_ != one.x) fail(ErrorKind::internal, "chart_svg: areas differ in x");
      for (size_t i = 0; i < one.y.size(); ++i) tops_.back()[i] += below_[i];
      below_ = tops_.back();
    }
  }

  std::string svg() {
    ChartRange xs, ys;
    for (size_t s = 0; s < chart_.series.size(); ++s) {
      const ChartSeries& one = chart_.series[s];
      const double half = one.kind == SeriesKind::bars ? bar_width(one) / 2 : 0;
      for (size_t i = 0; i < one.x.size(); ++i) {
        xs.add(one.x[i] - half, chart_.x.log);
        xs.add(one.x[i] + half, chart_.x.log);
        ys.add(tops_[s][i], chart_.y.log);
      }
      if (one.kind == SeriesKind::area || one.kind == SeriesKind::bars) ys.add(0, chart_.y.log);
    }
    if (std::ranges::any_of(
            chart_.series, [](const ChartSeries& one) { return one.kind == SeriesKind::points; })) {
      xs.widen(chart_.x.log);
      ys.widen(chart_.y.log);
    }
    // The widest tick decides where the chart begins.
    double left = 0;
    const ChartScale widths(chart_.y, ys, 0, 1);
    for (const double tick : widths.ticks()) {
      left = std::max(left, text_width(widths.text(tick), font));
    }
    box_ = {left + 46, chart_.marks.empty() ? 44.0 : 60.0, chart_.width - 24,
            chart_.height - 52 - 18 * static_cast<double>(legend_rows())};
    const ChartScale x(chart_.x, xs, box_.left, box_.right);
    const ChartScale y(chart_.y, ys, box_.bottom, box_.top);
    std::string text = svg_begin(
        {.width = chart_.width, .height = chart_.height, .title = chart_.title, .rules = {}});
    text +=
        fmt::format("<text class=\"title\" x=\"16\" y=\"26\">{}</text>\n", markup(chart_.title));
    text += axes(x, y);
    for (size_t s = 0; s < chart_.series.size(); ++s) text += series(s, x, y);
    for (const ChartMark& mark : chart_.marks) {
      if (!x.has(mark.x)) continue;
      text += fmt::format(
          "<path class=\"s{3}\" stroke-dasharray=\"5 4\" d=\"M{0:.1f},{1:.1f} V{2:.1f}\"/>\n"
          "<text x=\"{0:.1f}\" y=\"{4:.1f}\">{5}</text>\n",
          x.px(mark.x), box_.top, box_.bottom, mark.series % 8, box_.top - 6, markup(mark.text));
    }
    for (const Label& label : waiting_) add_label(label.text, label.x, label.y);
    return text + labels_ + legend() + "</svg>\n";
  }

 private:
  static double bar_width(const ChartSeries& one) {
    double least = infinite;
    std::vector<double> x = one.x;
    std::ranges::sort(x);
    for (size_t i = 1; i < x.size(); ++i) {
      if (x[i] > x[i - 1]) least = std::min(least, x[i] - x[i - 1]);
    }
    return std::isfinite(least) ? least : 1;
  }

  std::string axes(const ChartScale& x, const ChartScale& y) const {
    std::string text;
    for (const double tick : x.ticks()) {
      text += fmt::format(
          "<path class=\"grid\" d=\"M{0:.1f},{1:.1f} V{2:.1f}\"/><text x=\"{0:.1f}\" "
          "y=\"{3:.1f}\">{4}</text>\n",
          x.px(tick), box_.top, box_.bottom, box_.bottom + 16, x.text(tick));
    }
    for (const double tick : y.ticks()) {
      text += fmt::format(
          "<path class=\"grid\" d=\"M{0:.1f},{1:.1f} H{2:.1f}\"/><text class=\"end\" "
          "x=\"{3:.1f}\" y=\"{4:.1f}\">{5}</text>\n",
          box_.left, y.px(tick), box_.right, box_.left - 7, y.px(tick) + 4, y.text(tick));
    }
    const double middle = (box_.top + box_.bottom) / 2;
    return text + fmt::format(
                      "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n<text x=\"18\" y=\"{:.1f}\" "
                      "transform=\"rotate(-90 18 {:.1f})\">{}</text>\n",
                      (box_.left + box_.right) / 2, box_.bottom + 36, markup(chart_.x.label),
                      middle, middle, markup(chart_.y.label));
  }

  static std::string_view dashes(size_t s) {
    constexpr std::array<std::string_view, 4> patterns = {"", "7 3", "2 3", "9 3 2 3"};
    return patterns[s % patterns.size()];
  }

  // Circle, square, triangle or diamond.
  static std::string dot(size_t s, double x, double y) {
    constexpr std::array<std::string_view, 4> shapes = {
        "m-4,0 a4,4 0 1,0 8,0 a4,4 0 1,0 -8,0z", "m-3.5,-3.5 h7 v7 h-7z", "m0,-4.5 l4.5,8 h-9z",
        "m0,-5 l5,5 l-5,5 l-5,-5z"};
    return fmt::format("<path class=\"c{}\" d=\"M{:.1f},{:.1f} {}\"", s % 8, x, y,
                       shapes[s % shapes.size()]);
  }

  std::string series(size_t s, const ChartScale& x, const ChartScale& y) {
    const ChartSeries& one = chart_.series[s];
    std::string text;
    const auto known = [&](size_t i) { return x.has(one.x[i]) && y.has(tops_[s][i]); };
    const auto at = [&](size_t i) {
      return fmt::format("{:.1f},{:.1f} ", x.px(one.x[i]), y.px(tops_[s][i]));
    };
    switch (one.kind) {
      case SeriesKind::line:
        for (size_t i = 0; i < one.x.size();) {  // a polyline between two gaps
          std::string points;
          const size_t first = i;
          for (; i < one.x.size() && known(i); ++i) points += at(i);
          const size_t count = i - first;
          for (; i < one.x.size() && !known(i);) ++i;
          if (count == 0) continue;
          if (count == 1) {  // a line of one point shows nothing
            text += dot(s, x.px(one.x[first]), y.px(tops_[s][first])) + "/>\n";
            continue;
          }
          text += fmt::format(
              "<polyline class=\"s{}\" fill=\"none\" stroke-width=\"2\" stroke-dasharray=\"{}\" "
              "points=\"{}\"/>\n",
              s % 8, dashes(s), points);
        }
        break;
      case SeriesKind::area: {
        std::string points;
        for (size_t i = 0; i < one.x.size(); ++i) points += at(i);
        for (size_t i = one.x.size(); i-- > 0;) {
          points += fmt::format("{:.1f},{:.1f} ", x.px(one.x[i]), y.px(tops_[s][i] - one.y[i]));
        }
        text += fmt::format("<polygon class=\"c{0} s{0}\" fill-opacity=\"0.75\" points=\"{1}\"/>\n",
                            s % 8, points);
        break;
      }
      case SeriesKind::bars: {
        const double width = bar_width(one);
        for (size_t i = 0; i < one.x.size(); ++i) {
          if (!known(i)) continue;
          const double half = 0.45 * width, begin = x.px(one.x[i] - half);
          const double zero = y.has(0) ? y.px(0) : box_.bottom, top = y.px(tops_[s][i]);
          text += fmt::format(
              "<rect class=\"c{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
              "height=\"{:.1f}\"/>\n",
              s % 8, begin, std::min(zero, top), std::max(0.5, x.px(one.x[i] + half) - begin),
              std::abs(zero - top));
        }
        break;
      }
      case SeriesKind::points:
        for (size_t i = 0; i < one.x.size(); ++i) {
          if (!known(i)) continue;
          const double px = x.px(one.x[i]), py = y.px(one.y[i]);
          text += fmt::format("{}><title>{}{}{}, {}</title></path>\n", dot(s, px, py),
                              one.labels.empty() ? "" : markup(one.labels[i]),
                              one.labels.empty() ? "" : ": ", x.text(one.x[i]), y.text(one.y[i]));
          taken_.push_back({px - 5, py - 5, px + 5, py + 5});
          if (!one.labels.empty()) waiting_.push_back({one.labels[i], px, py});
        }
        break;
    }
    return text;
  }

  // Right, left, above or below of a point, where it meets no other point or label; else nowhere.
  void add_label(const std::string& label, double x, double y) {
    const double wide = text_width(label, font);
    for (const auto& [dx, dy] :
         {std::pair{8.0, 4.0}, {-8 - wide, 4.0}, {-wide / 2, -8.0}, {-wide / 2, 16.0}}) {
      const Rect place{x + dx, y + dy - 9, x + dx + wide, y + dy + 3};
      const bool inside = place.left >= box_.left && place.right <= chart_.width - 2 &&
                          place.top >= box_.top && place.bottom <= box_.bottom;
      if (!inside || std::ranges::any_of(taken_, [&](const Rect& r) { return place.meets(r); }))
        continue;
      taken_.push_back(place);
      labels_ += fmt::format("<text class=\"start\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x + dx,
                             y + dy, markup(label));
      return;
    }
  }

  // Calls `visit` with the series, its column in px and its row.
  template <class Visit>
  size_t each_in_legend(Visit visit) const {
    double x = 16;
    size_t row = 0;
    bool any = false;
    for (size_t s = 0; s < chart_.series.size(); ++s) {
      if (chart_.series[s].name.empty()) continue;
      const double wide = 30 + text_width(chart_.series[s].name, font) + 18;
      if (any && x + wide > chart_.width) x = 16, ++row;
      visit(s, x, row);
      x += wide;
      any = true;
    }
    return any ? row + 1 : 0;
  }
  size_t legend_rows() const {
    return each_in_legend([](size_t, double, size_t) {});
  }

  std::string legend() const {
    std::string text;
    each_in_legend([&](size_t s, double x, size_t row) {
      const double y = chart_.height - 18 * static_cast<double>(legend_rows() - row) + 6;
      switch (chart_.series[s].kind) {
        case SeriesKind::line:
          text += fmt::format(
              "<path class=\"s{}\" fill=\"none\" stroke-width=\"2\" stroke-dasharray=\"{}\" "
              "d=\"M{:.1f},{:.1f} h22\"/>",
              s % 8, dashes(s), x, y - 4);
          break;
        case SeriesKind::points:
          text += dot(s, x + 14, y - 4) + "/>";
          break;
        default:
          text += fmt::format(
              "<rect class=\"c{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"22\" height=\"10\" "
              "fill-opacity=\"{}\"/>",
              s % 8, x, y - 9, chart_.series[s].kind == SeriesKind::area ? 0.75 : 1);
      }
      text += fmt::format("<text class=\"start\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x + 28, y,
                          markup(chart_.series[s].name));
    });
    return text;
  }

  const Chart& chart_;
  std::vector<std::vector<double>> tops_;  // y, of areas with those below
  std::vector<double> below_;
  const std::vector<double>* area_x_ = nullptr;
  Rect box_ = {};
  struct Label {
    std::string text;
    double x, y;
  };
  std::vector<Label> waiting_;
  std::vector<Rect> taken_;  // by points and labels
  std::string labels_;
};

}  // namespace

ChartSeries line_of(std::string name, std::span<const std::pair<double, double>> points) {
  ChartSeries line{.name = std::move(name)};
  for (const auto& [x, y] : points) {
    line.x.push_back(x);
    line.y.push_back(y);
  }
  return line;
}

std::string chart_svg(const Chart& chart) {
  return ChartDrawing(chart).svg();
}

}  // namespace whisker
