// SVG. All text is monospaced, so that its width is known without a font: 0.602 em per character
// (the advance of DejaVu Sans Mono, the widest of the fonts asked for).
#include "core/io/checksum_mark.h"
#include "core/trace/graph_layout.h"
#include "core/trace/tape_graph.h"

#include <algorithm>
#include <cmath>

namespace whisker {
namespace {

constexpr double margin = 28;
constexpr double title_height = 64;
constexpr double line_height = 15;
constexpr double pad_x = 12, pad_y = 8;
constexpr double pill_gap = 6;     // between the parameters of one operator
constexpr double pill_space = 26;  // from the parameters to their operator

struct Line {
  std::string text;
  const char* style;  // class in the style sheet
  double size;        // font size, px
};

double width_of(const Line& line) {
  const auto characters =
      std::count_if(line.text.begin(), line.text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  return static_cast<double>(characters) * line.size * 0.602;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '&') {
      result += "&amp;";
    } else if (c == '"') {
      result += "&quot;";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += ' ';  // XML 1.0 has no control characters
    } else {
      result += c;
    }
  }
  return result;
}

std::string norm_text(const TapeEntry& entry) {
  return fmt::format("\u2016\u2207\u2016 {:.3g}", entry.gradient_norm());
}

// What an operator does decides its colour.
const char* family_of(const TapeEntry& entry) {
  const std::string& name = entry.name;
  const auto any = [&](std::initializer_list<std::string_view> parts) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](std::string_view part) { return name.find(part) != std::string::npos; });
  };
  if (entry.kind == TapeKind::leaf) return "leaf";
  if (entry.kind == TapeKind::constant) return "constant";
  if (!entry.recorded) return "frozen";
  if (any({"entropy", "mse"})) return "loss";
  if (any({"conv", "linear", "matmul", "embedding"})) return "product";
  if (any({"norm"})) return "norm";
  if (any({"pool"})) return "pool";
  return "other";
}

struct Box {
  std::vector<Line> lines;
  double width = 0, height = 0;
};

Box box_of(const TapeEntry& entry) {
  Box box;
  if (entry.kind == TapeKind::op) {
    box.lines.push_back({fmt::format("{} {}", entry.number, entry.name), "op", 12.5});
    if (!entry.layer.empty() && entry.layer != entry.name) {
      box.lines.push_back({entry.layer, "quiet", 10.5});
    }
  } else {
    box.lines.push_back({entry.name, "name", 10.5});
  }
  box.lines.push_back({entry.shape().str(), "shape", 10.5});
  if (!std::isnan(entry.gradient_norm())) box.lines.push_back({norm_text(entry), "grad", 10.5});
  for (const Line& line : box.lines) box.width = std::max(box.width, width_of(line));
  box.width += 2 * pad_x;
  box.height = static_cast<double>(box.lines.size()) * line_height + 2 * pad_y;
  return box;
}

class Drawing {
 public:
  explicit Drawing(const Recording& recording) : entries_(recording.entries) {
    std::vector<int> uses(entries_.size(), 0);
    for (const TapeEntry& entry : entries_) {
      boxes_.push_back(box_of(entry));
      for (const TapeInput& input : entry.inputs) ++uses[input.entry];
    }
    // A parameter that is used once is drawn beside its operator, all others as their own box.
    beside_.resize(entries_.size());
    std::vector<bool> placed(entries_.size(), false);
    for (size_t i = 0; i < entries_.size(); ++i) {
      for (const TapeInput& operand : entries_[i].inputs) {
        const size_t input = operand.entry;
        if (entries_[input].kind != TapeKind::leaf || uses[input] != 1) continue;
        beside_[i].push_back(input);
        placed[input] = true;
      }
    }
    place_.resize(entries_.size());
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (placed[i]) continue;
      place_[i] = layout_.boxes.size();
      order_.push_back(i);
      layout_.boxes.push_back(group_of(i));
    }
    for (size_t i = 0; i < entries_.size(); ++i) {
      for (const TapeInput& operand : entries_[i].inputs) {
        if (placed[operand.entry]) continue;
        layout_.edges.push_back({.from = place_[operand.entry], .to = place_[i]});
      }
    }
    layout_.place();
  }

  std::string svg(const std::string& title) const;

 private:
  double pills_height(size_t i) const {
    double height = -pill_gap;
    for (const size_t leaf : beside_[i]) height += boxes_[leaf].height + pill_gap;
    return height;
  }

  double pills_width(size_t i) const {
    double width = 0;
    for (const size_t leaf : beside_[i]) width = std::max(width, boxes_[leaf].width);
    return width;
  }

  // The operator with its parameters on the left.
  LayoutBox group_of(size_t i) const {
    const Box& box = boxes_[i];
    if (beside_[i].empty()) {
      return {.width = box.width, .height = box.height, .anchor = box.width / 2};
    }
    const double left = pills_width(i) + pill_space;
    return {.width = left + box.width,
            .height = std::max(box.height, pills_height(i)),
            .anchor = left + box.width / 2};
  }

  std::string box_svg(size_t i, double x, double y) const;
  std::string group_svg(size_t i) const;
  std::string edge_svg(const LayoutEdge& edge) const;

  const std::vector<TapeEntry>& entries_;
  std::vector<Box> boxes_;
  std::vector<std::vector<size_t>> beside_;  // the parameters drawn next to each operator
  std::vector<size_t> place_;                // entry -> box of the layout
  std::vector<size_t> order_;                // and back
  GraphLayout layout_;
};

std::string Drawing::box_svg(size_t i, double x, double y) const {
  const Box& box = boxes_[i];
  const double radius = entries_[i].kind == TapeKind::op ? 6 : 12;
  std::string text = fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
      "rx=\"{}\"/>\n",
      family_of(entries_[i]), x, y, box.width, box.height, radius);
  double baseline = y + pad_y + 0.76 * line_height;
  for (const Line& line : box.lines) {
    text += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", line.style,
                        x + box.width / 2, baseline, escaped(line.text));
    baseline += line_height;
  }
  return text;
}

std::string Drawing::group_svg(size_t i) const {
  const LayoutBox& group = layout_.boxes[place_[i]];
  const Box& box = boxes_[i];
  const double x = group.corner.x + group.width - box.width;
  const double middle = group.corner.y + group.height / 2;
  std::string text = box_svg(i, x, middle - box.height / 2);
  const double column = group.corner.x + pills_width(i);
  double y = middle - pills_height(i) / 2;
  for (const size_t leaf : beside_[i]) {
    const Box& pill = boxes_[leaf];
    text += box_svg(leaf, column - pill.width, y);
    // Arrow heads spread over the operator's side in the order of its parameters.
    const double from = y + pill.height / 2;
    const double to = middle + std::clamp(from - middle, -box.height / 4, box.height / 4);
    text += fmt::format(
        "<path class=\"edge\" d=\"M{:.1f},{:.1f} C{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}\"/>\n",
        column, from, column + pill_space / 2, from, x - pill_space / 2, to, x - 1.5, to);
    y += pill.height + pill_gap;
  }
  return text;
}

std::string Drawing::edge_svg(const LayoutEdge& edge) const {
  // Boxes are centred in their row: leave and enter vertically at the operator's own box.
  const auto inset = [&](size_t place) {
    return (layout_.boxes[place].height - boxes_[order_[place]].height) / 2;
  };
  std::vector<LayoutPoint> points = edge.points;
  points.front().y -= inset(edge.from);
  points.back().y += inset(edge.to) - 1.5;
  std::string text =
      fmt::format("<path class=\"edge\" d=\"M{:.1f},{:.1f}", points[0].x, points[0].y);
  for (size_t i = 1; i < points.size(); ++i) {
    const LayoutPoint& a = points[i - 1];
    const LayoutPoint& b = points[i];
    if (a.x == b.x) {
      text += fmt::format(" L{:.1f},{:.1f}", b.x, b.y);
    } else {
      const double bend = (b.y - a.y) / 2;
      text += fmt::format(" C{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}", a.x, a.y + bend, b.x,
                          b.y - bend, b.x, b.y);
    }
  }
  return text + "\"/>\n";
}

constexpr const char* style_sheet = R"(<style>
text { font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; text-anchor: middle;
       fill: #1c2733; font-size: 10.5px; }
.title { font-size: 17px; font-weight: bold; text-anchor: start; }
.legend { fill: #5c6a78; text-anchor: start; }
.op { font-size: 12.5px; font-weight: bold; }
.quiet { fill: #5c6a78; }
.shape { fill: #23456e; }
.grad { fill: #a2331f; }
rect { stroke-width: 1.2; }
.product { fill: #e3edf9; stroke: #4a7ab5; }
.norm { fill: #eae6f6; stroke: #7c68b0; }
.pool { fill: #dff1f0; stroke: #3f8f8a; }
.other { fill: #f4f5f7; stroke: #7f8a97; }
.loss { fill: #fbe5e1; stroke: #b9523f; }
.leaf { fill: #fdf2d8; stroke: #c39534; }
.constant { fill: #e5f2e0; stroke: #65994f; }
.frozen { fill: #fafafa; stroke: #b4bac2; stroke-dasharray: 4 3; }
.edge { fill: none; stroke: #5c6a78; stroke-width: 1.3; marker-end: url(#head); }
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
 orient="auto"><path d="M0,0.6 L8,4 L0,7.4 L1.8,4 Z" fill="#5c6a78"/></marker></defs>
)";

constexpr std::string_view svg_mark = "<!-- by whisker study graph";

std::string Drawing::svg(const std::string& title) const {
  const Line heading{title, "title", 17};
  const Line legend{
      "yellow: parameters, green: inputs, \u2016\u2207\u2016: norm of the gradient "
      "that arrived",
      "legend", 10.5};
  const double content = std::max({layout_.width, width_of(heading), width_of(legend)});
  const double width = content + 2 * margin;
  const double height = layout_.height + title_height + 2 * margin;
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\">\n{3} -->\n{2}<rect width=\"100%\" height=\"100%\" "
      "fill=\"white\"/>\n",
      width, height, style_sheet, checksum_mark(svg_mark));
  double y = margin + 14;
  for (const Line& line : {heading, legend}) {
    text += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\">{}</text>\n", line.style, margin, y,
                        escaped(line.text));
    y += 22;
  }
  text += fmt::format("<g transform=\"translate({:.1f},{:.1f})\">\n",
                      margin + (content - layout_.width) / 2, margin + title_height);
  for (const LayoutEdge& edge : layout_.edges) text += edge_svg(edge);
  for (const size_t i : order_) text += group_svg(i);
  text += "</g>\n</svg>\n";
  set_checksum(text, svg_mark);
  return text;
}

}  // namespace

bool is_tape_svg(std::string_view content) {
  return content.starts_with("<svg ") && checksum_matches(content, svg_mark);
}

std::string tape_svg(const Recording& recording) {
  return Drawing(recording).svg(recording.title);
}

}  // namespace whisker
