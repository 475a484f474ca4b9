// SVG. Small graphs run from left to right where that suits a slide better. All text is monospaced,
// so that its width is known without a font.
#include "core/draw/markup.h"
#include "core/io/checksum_mark.h"
#include "core/io/text_table.h"
#include "core/trace/graph_layout.h"
#include "core/trace/tape_graph.h"
#include "core/trace/tape_style.h"

#include <algorithm>
#include <cmath>

namespace whisker {
namespace {

constexpr double slide_width = 1280, slide_height = 720;
constexpr double least_shown = 0.6;  // of a small graph on a slide
constexpr double margin = 20;
constexpr double title_size = 17, title_line = 23;
constexpr double legend_line = 20;
constexpr double line_height = 15;
constexpr double pad_x = 12, pad_y = 8;
constexpr double pill_gap = 6;     // between the parameters of one operator
constexpr double pill_space = 26;  // from the parameters to their operator

struct Line {
  std::string text;
  const char* style;  // class in the style sheet
  double size;        // font size, px
};

std::string norm_text(const TapeEntry& entry) {
  return fmt::format("\u2016\u2207\u2016 {:.3g}", entry.gradient_norm());
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
  for (const Line& line : box.lines) {
    box.width = std::max(box.width, text_width(line.text, line.size));
  }
  box.width += 2 * pad_x;
  box.height = static_cast<double>(box.lines.size()) * line_height + 2 * pad_y;
  return box;
}

class Drawing {
 public:
  Drawing(const Recording& recording, bool across)
      : entries_(recording.entries), across_(across), title_(recording.title) {
    std::vector<int> uses(entries_.size(), 0);
    for (const TapeEntry& entry : entries_) {
      boxes_.push_back(box_of(entry));
      for (const TapeInput& input : entry.inputs) ++uses[input.entry];
    }
    // A parameter that is used once is drawn beside its operator, all others as their own box.
    beside_.resize(entries_.size());
    std::vector<bool> placed(entries_.size(), false);
    for (size_t i = 0; i < entries_.size() && !across; ++i) {
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
    if (across) layout_.column_gap = 12;
    layout_.place();
    if (across) transpose();
    content_ = std::max(layout_.width, 560.0);
    title_lines_ =
        wrap_text(printable(title_), static_cast<size_t>(content_ / text_width("m", title_size)),
                  CutWords::longest);
    place_legend();
    width_ = content_ + 2 * margin;
    top_ = margin + title_line * static_cast<double>(title_lines_.size()) + 6;
    height_ = top_ + layout_.height + 24 + legend_height_ + margin;
  }

  /// The image's size, relative to the drawing: a small graph is made to fit a slide.
  double shown() const {
    const double fits = std::min({1.0, slide_width / width_, slide_height / height_});
    return fits < least_shown ? 1 : fits;
  }
  double fit() const { return std::min(slide_width / width_, slide_height / height_); }
  std::string svg() const;

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

  // The operator with its parameters on the left; across, its box on its side.
  LayoutBox group_of(size_t i) const {
    const Box& box = boxes_[i];
    if (across_) return {.width = box.height, .height = box.width, .anchor = box.height / 2};
    if (beside_[i].empty()) {
      return {.width = box.width, .height = box.height, .anchor = box.width / 2};
    }
    const double left = pills_width(i) + pill_space;
    return {.width = left + box.width,
            .height = std::max(box.height, pills_height(i)),
            .anchor = left + box.width / 2};
  }

  void transpose() {
    std::swap(layout_.width, layout_.height);
    for (LayoutBox& box : layout_.boxes) {
      std::swap(box.width, box.height);
      std::swap(box.corner.x, box.corner.y);
    }
    for (LayoutEdge& edge : layout_.edges) {
      for (LayoutPoint& point : edge.points) std::swap(point.x, point.y);
    }
  }

  void place_legend();
  std::string box_svg(size_t i, double x, double y) const;
  std::string group_svg(size_t i) const;
  std::string edge_svg(const LayoutEdge& edge) const;

  const std::vector<TapeEntry>& entries_;
  bool across_;  // from left to right
  std::string title_;
  std::vector<std::string> title_lines_;
  std::vector<Box> boxes_;
  std::vector<std::vector<size_t>> beside_;  // the parameters drawn next to each operator
  std::vector<size_t> place_;                // entry -> box of the layout
  std::vector<size_t> order_;                // and back
  GraphLayout layout_;
  std::string legend_;
  double content_ = 0, width_ = 0, top_ = 0, height_ = 0, legend_height_ = 0;
};

std::string sample_rect(const TapeFamily& family, double x, double y, double width, double height) {
  const int radius = family.name == "leaf" ? 12 : family.name == "constant" ? 0 : 6;
  return fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
      "rx=\"{}\"/>\n",
      family.name, x, y, width, height, radius);
}

// The legend names what the drawing has, wrapped to its width.
void Drawing::place_legend() {
  double x = 0, y = 0;
  const auto add = [&](std::string_view text, auto sample) {
    const double wide = text_width(text, 11) + 30;
    if (x > 0 && x + wide > content_) x = 0, y += legend_line;
    legend_ += sample(x, y);
    legend_ += fmt::format("<text class=\"quiet start\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                           x + 28, y + 11, text);
    x += wide + 14;
  };
  bool norms = false;
  for (const TapeEntry& entry : entries_) norms = norms || !std::isnan(entry.gradient_norm());
  for (const TapeFamily& family : tape_families()) {
    const bool occurs = std::ranges::any_of(
        entries_, [&](const TapeEntry& entry) { return &family_of(entry) == &family; });
    if (!occurs) continue;
    add(family.legend,
        [&](double at, double top) { return sample_rect(family, at, top + 1, 22, 13); });
  }
  const auto word = [](std::string_view style, std::string_view text) {
    return [=](double at, double top) {
      return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", style, at + 11,
                         top + 11, text);
    };
  };
  add("shape of the result", word("shape", "(2)"));
  if (norms) add("norm of the gradient that arrived", word("grad", "\u2016\u2207\u2016"));
  legend_height_ = y + legend_line;
}

std::string Drawing::box_svg(size_t i, double x, double y) const {
  const Box& box = boxes_[i];
  std::string text = sample_rect(family_of(entries_[i]), x, y, box.width, box.height);
  double baseline = y + pad_y + 0.76 * line_height;
  for (const Line& line : box.lines) {
    text += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", line.style,
                        x + box.width / 2, baseline, markup(line.text));
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
        "<path class=\"edge\" marker-end=\"url(#head)\" d=\"M{:.1f},{:.1f} C{:.1f},{:.1f} "
        "{:.1f},{:.1f} {:.1f},{:.1f}\"/>\n",
        column, from, column + pill_space / 2, from, x - pill_space / 2, to, x - 1.5, to);
    y += pill.height + pill_gap;
  }
  return text;
}

std::string Drawing::edge_svg(const LayoutEdge& edge) const {
  // Boxes are centred in their row: leave and enter at the operator's own box.
  const auto inset = [&](size_t place) {
    return across_ ? 0 : (layout_.boxes[place].height - boxes_[order_[place]].height) / 2;
  };
  std::vector<LayoutPoint> points = edge.points;
  points.front().y -= inset(edge.from);
  points.back().y += inset(edge.to);
  (across_ ? points.back().x : points.back().y) -= 1.5;
  std::string text =
      fmt::format("<path class=\"edge\" marker-end=\"url(#head)\" d=\"M{:.1f},{:.1f}", points[0].x,
                  points[0].y);
  for (size_t i = 1; i < points.size(); ++i) {
    const LayoutPoint& a = points[i - 1];
    const LayoutPoint& b = points[i];
    const double dx = across_ ? (b.x - a.x) / 2 : 0, dy = across_ ? 0 : (b.y - a.y) / 2;
    if (across_ ? a.y == b.y : a.x == b.x) {
      text += fmt::format(" L{:.1f},{:.1f}", b.x, b.y);
    } else {
      text += fmt::format(" C{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}", a.x + dx, a.y + dy,
                          b.x - dx, b.y - dy, b.x, b.y);
    }
  }
  return text + "\"/>\n";
}

constexpr std::string_view svg_mark = "<!-- by whisker study graph";

std::string Drawing::svg() const {
  std::string text = svg_begin({.width = width_,
                                .height = height_,
                                .title = title_,
                                .rules = tape_rules(),
                                .comment = checksum_mark(svg_mark) + " -->\n",
                                .shown = shown()});
  double y = margin + title_size;
  for (const std::string& line : title_lines_) {
    text +=
        fmt::format("<text class=\"title\" x=\"{}\" y=\"{}\">{}</text>\n", margin, y, markup(line));
    y += title_line;
  }
  text += fmt::format("<g transform=\"translate({:.1f},{:.1f})\">\n",
                      margin + (content_ - layout_.width) / 2, top_);
  for (const LayoutEdge& edge : layout_.edges) text += edge_svg(edge);
  for (const size_t i : order_) text += group_svg(i);
  text += fmt::format("</g>\n<g transform=\"translate({:.1f},{:.1f})\">\n{}</g>\n</svg>\n", margin,
                      height_ - margin - legend_height_, legend_);
  set_checksum(text, svg_mark);
  return text;
}

}  // namespace

bool is_tape_svg(std::string_view content) {
  return content.starts_with("<svg ") && checksum_matches(content, svg_mark);
}

std::string tape_svg(const Recording& recording) {
  const Drawing down(recording, false);
  constexpr size_t most_of_slide = 60;
  if (recording.entries.size() > most_of_slide) return down.svg();
  const Drawing across(recording, true);
  return across.fit() > down.fit() ? across.svg() : down.svg();
}

}  // namespace whisker
