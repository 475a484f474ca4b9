// Images of the tape: the layout's promises on random graphs, and what the files contain.
#include "core/trace/tape_graph.h"

#include "core/tensor/philox.h"
#include "core/trace/graph_layout.h"
#include "core/trace/step_recorder.h"
#include "tests/core/trace/tape_support.h"

#include <cmath>
#include <cstdio>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

GraphLayout random_graph(uint64_t seed) {
  PhiloxStream random(seed, stream_of("graph"));
  GraphLayout layout;
  const size_t count = 2 + random.below(30);
  for (size_t i = 0; i < count; ++i) {
    const double width = random.uniform(20, 200);
    layout.boxes.push_back(
        {.width = width, .height = random.uniform(10, 80), .anchor = random.uniform(0, width)});
    for (uint32_t k = random.below(3); i > 0 && k > 0; --k) {
      layout.edges.push_back({.from = random.below(static_cast<uint32_t>(i)), .to = i});
    }
  }
  return layout;
}

TEST(GraphLayout, BoxesNeverOverlapAndEdgesGoDown) {
  int64_t pairs = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    GraphLayout layout = random_graph(seed);
    layout.place();
    for (size_t i = 0; i < layout.boxes.size(); ++i) {
      const LayoutBox& a = layout.boxes[i];
      ASSERT_GE(a.corner.x, -1e-6);
      ASSERT_LE(a.corner.x + a.width, layout.width + 1e-6);
      ASSERT_LE(a.corner.y + a.height, layout.height + 1e-6);
      for (size_t k = 0; k < i; ++k, ++pairs) {
        const LayoutBox& b = layout.boxes[k];
        const bool apart = a.corner.x + a.width < b.corner.x || b.corner.x + b.width < a.corner.x ||
                           a.corner.y + a.height < b.corner.y || b.corner.y + b.height < a.corner.y;
        ASSERT_TRUE(apart) << "seed " << seed << ": boxes " << k << " and " << i;
      }
    }
    for (const LayoutEdge& edge : layout.edges) {
      for (size_t i = 1; i < edge.points.size(); ++i) {
        ASSERT_GE(edge.points[i].y, edge.points[i - 1].y);
      }
    }
  }
  RecordProperty("pairs", std::to_string(pairs));
}

TEST(GraphLayout, AChainIsStraight) {
  GraphLayout layout;
  for (int i = 0; i < 5; ++i)
    layout.boxes.push_back({.width = 40.0 + i, .height = 20, .anchor = 10});
  for (size_t i = 1; i < 5; ++i) layout.edges.push_back({.from = i - 1, .to = i});
  layout.place();
  for (const LayoutBox& box : layout.boxes)
    EXPECT_NEAR(box.corner.x, layout.boxes[0].corner.x, 1e-9);
}

TEST(GraphLayout, UncrossesWhatCanBeUncrossed) {
  GraphLayout layout;  // 0 -> 3, 1 -> 2: as listed they cross
  for (int i = 0; i < 4; ++i) layout.boxes.push_back({.width = 40, .height = 20, .anchor = 20});
  layout.edges = {{.from = 0, .to = 3}, {.from = 1, .to = 2}};
  layout.place();
  EXPECT_EQ(layout.boxes[0].corner.x < layout.boxes[1].corner.x,
            layout.boxes[3].corner.x < layout.boxes[2].corner.x);
}

TEST(GraphLayout, ACycleIsRefused) {
  GraphLayout layout;
  layout.boxes.resize(2);
  layout.edges = {{.from = 0, .to = 1}, {.from = 1, .to = 0}};
  EXPECT_THROW(layout.place(), Error);
}

TEST(GraphLayout, ParametersDoNotPullAChain) {
  GraphLayout layout;  // 0 -> 1 -> 2 -> 3, and a parameter for each of 1 to 3
  for (int i = 0; i < 7; ++i) layout.boxes.push_back({.width = 40, .height = 20, .anchor = 20});
  for (size_t i = 1; i < 4; ++i) {
    layout.edges.push_back({.from = i - 1, .to = i});
    layout.edges.push_back({.from = i + 3, .to = i});
  }
  layout.place();
  EXPECT_NEAR(layout.boxes[3].corner.x, layout.boxes[1].corner.x, 5);
}

Recording recorded(const std::string& title, bool values = true) {
  StepRecorder recorder({.values = values});
  const Tensor x = full({2, 2}, 3, exact);
  const Tensor w = full({2, 2}, 2, exact);
  w.set_requires_grad();
  recorder.name(w, "a\"<w>&\\b");
  recorder.name(x, "x");
  backward(sum(matmul(x, w)));
  Recording recording = recorder.recording();
  recording.title = title;
  return recording;
}

TEST(TapeGraph, DotNamesOperatorsShapesAndEdges) {
  const std::string dot = tape_dot(recorded("a \"title\""));
  EXPECT_THAT(dot, HasSubstr("label=\"a \\\"title\\\"\""));
  EXPECT_THAT(dot, HasSubstr("n1 [label=\"a\\\"<w>&\\\\b\\n(2,2) f64\\n|gradient| 12\""));
  EXPECT_THAT(dot, HasSubstr("n2 [label=\"1 matmul\\n(2,2) f64\\n|gradient| 2\""));
  EXPECT_THAT(dot, HasSubstr("  n0 -> n2;\n  n1 -> n2;\n  n2 -> n3;\n"));
}

TEST(TapeGraph, SvgEscapesTextAndShowsNorms) {
  const std::string svg = tape_svg(recorded("a < b"));
  EXPECT_THAT(svg, HasSubstr("a &lt; b"));
  EXPECT_THAT(svg, HasSubstr("a&quot;&lt;w&gt;&amp;\\b"));
  EXPECT_THAT(svg, Not(HasSubstr("<w>")));
  EXPECT_THAT(svg, HasSubstr(">\u2016\u2207\u2016 12<"));
  const auto times = [&](std::string_view part) {
    int count = 0;
    for (size_t at = svg.find(part); at != std::string::npos; at = svg.find(part, at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(times("<rect class="), 9);  // the ground, x, w, matmul, sum, and four of the legend
  EXPECT_THAT(svg, HasSubstr("parameter: gradients accumulate"));
  EXPECT_THAT(svg, HasSubstr("norm of the gradient that arrived"));
  EXPECT_THAT(svg, Not(HasSubstr("pooling")));
  EXPECT_EQ(times("<path class=\"edge\""), 3);  // an arrow for every operand
  EXPECT_EQ(times("<text"), times("</text>"));
}

TEST(TapeGraph, ASmallGraphFitsASlide) {
  StepRecorder recorder;
  Tensor x = full({2, 2}, 3, exact);
  x.set_requires_grad();
  for (int i = 0; i < 12; ++i) x = relu(x);
  backward(sum(x));
  Recording recording = recorder.recording();
  recording.title = std::string(200, 't');
  const std::string svg = tape_svg(recording);
  double width = 0, height = 0;
  ASSERT_EQ(std::sscanf(svg.substr(svg.find("width=")).c_str(), "width=\"%lf\" height=\"%lf\"",
                        &width, &height),
            2);
  EXPECT_LE(width, 1280);
  EXPECT_LE(height, 720);
  EXPECT_GT(width, 2 * height);  // from left to right
}

TEST(TapeGraph, MermaidEscapesWhatItWouldRead) {
  const std::string mermaid = tape_mermaid(recorded("t"));
  EXPECT_THAT(mermaid, HasSubstr("\nflowchart TD\n"));
  EXPECT_THAT(mermaid,
              HasSubstr("n1([\"a#34;#60;w#62;#38;#92;b<br>(2,2) f64<br>#124;gradient#124; 12\"])"
                        ":::leaf\n"));
  EXPECT_THAT(mermaid, HasSubstr("  n0 --> n2\n  n1 --> n2\n  n2 --> n3\n"));
  EXPECT_TRUE(is_tape_mermaid(mermaid));
  EXPECT_FALSE(is_tape_mermaid(mermaid + "%% mine\n"));
}

TEST(TapeGraph, FilesAreKnownByTheirChecksum) {
  const Recording recording = recorded("t", false);
  const std::string dot = tape_dot(recording), svg = tape_svg(recording);
  EXPECT_TRUE(is_tape_dot(dot));
  EXPECT_TRUE(is_tape_svg(svg));
  EXPECT_FALSE(is_tape_dot(svg));
  EXPECT_FALSE(is_tape_svg(dot));
  EXPECT_FALSE(is_tape_dot(dot + "// mine\n"));
  EXPECT_FALSE(is_tape_svg(svg.substr(0, svg.size() - 7) + "<text>mine</text>\n</svg>\n"));
}

}  // namespace
}  // namespace whisker
