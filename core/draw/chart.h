// Charts as SVG images: curves, stacked areas, bars and points over two axes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace whisker {

enum class SeriesKind : uint8_t {
  line,
  area,    ///< on top of the areas before it, over the same x
  bars,    ///< from 0, as wide as the least distance of two x
  points,  ///< each with its label, where there is room, and in its tooltip
};

struct ChartSeries {
  std::string name = {};  ///< for the legend; "" leaves it out
  SeriesKind kind = SeriesKind::line;
  std::vector<double> x = {}, y = {};    ///< as many; what is not finite leaves a gap
  std::vector<std::string> labels = {};  ///< of points; empty or as many
};

/// A line through points (x, y).
ChartSeries line_of(std::string name, std::span<const std::pair<double, double>> points);

struct ChartAxis {
  std::string label = {};
  bool log = false;                           ///< values of 0 and below leave a gap
  bool bytes = false;                         ///< ticks are "16 MiB"
  std::optional<double> low = {}, high = {};  ///< else of the series; lines end there
};

/// A dashed line across the chart at x, its text above it, in the colour of a series.
struct ChartMark {
  double x = 0;
  std::string text;
  size_t series = 0;
};

struct Chart {
  std::string title;
  ChartAxis x = {}, y = {};
  std::vector<ChartSeries> series = {};
  std::vector<ChartMark> marks = {};
  double width = 760, height = 440;  ///< px
};

/// An SVG document of its own, which may also stand within an HTML page. Names are escaped. Throws
/// internal where x and y, or labels, differ in number, or areas in x.
std::string chart_svg(const Chart& chart);

}  // namespace whisker
