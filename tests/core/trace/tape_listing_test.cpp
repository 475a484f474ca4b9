// The listing: what is saved, who is named, which layer ran, what is left out.
#include "core/trace/tape_listing.h"

#include "core/io/text_table.h"
#include "core/ops/ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr TensorOptions f64{.dtype = DType::f64, .device = reference_device};

struct Pass {
  Tensor x = from_vector({1, 2, 3, 4, 5, 6}, {2, 3}, f64);
  Tensor w = from_vector({1, -1, 1, -1, 1, -1}, {3, 2}, f64);

  void run(TapeListing& listing) {
    w.set_requires_grad();
    listing.name(x, "images");
    listing.name(w, "fc.weight");
    affine(x, 2, 0);  // a side result
    Tensor y;
    {
      const TapeScope outer("net");
      const Tensor halved = affine(x, 0.5, 0);
      const TapeScope inner("net.fc");
      y = matmul(halved, w);
    }
    backward(sum(mul(relu(y), y)));
  }
};

TEST(TapeListing, NumbersOperatorsAndSaysWhatEachKeeps) {
  TapeListing listing({.gradient_norms = true});
  Pass().run(listing);
  std::vector<std::string> ops, layers, saved;
  for (const TapeEntry& entry : listing.entries()) {
    if (entry.kind != TapeKind::op) continue;
    ops.push_back(fmt::format("{} {}", entry.number, entry.name));
    layers.push_back(entry.layer);
    std::string kept;
    for (const TapeSaved& one : entry.saved) kept += fmt::format("{}:{} ", one.what, one.bytes);
    saved.push_back(kept);
  }
  EXPECT_THAT(ops, ElementsAre("1 affine", "2 matmul", "3 relu", "4 mul", "5 sum"));
  EXPECT_THAT(layers, ElementsAre("net", "net.fc", "", "", ""));
  // The matrix product keeps its left operand only: nothing wants the gradient of that. relu keeps
  // its result, which mul keeps too, without more memory.
  EXPECT_THAT(saved, ElementsAre("", "input:48 ", "output:32 ", "input:0 input:32 ", ""));
}

TEST(TapeListing, BackwardStepsRunFromTheRootToTheLeaves) {
  TapeListing listing({.gradient_norms = true});
  Pass().run(listing);
  std::vector<std::string> steps(6);
  for (const TapeEntry& entry : listing.entries()) {
    if (entry.backward_step > 0) steps[static_cast<size_t>(entry.backward_step)] = entry.name;
    if (entry.name == "sum") {
      EXPECT_EQ(entry.gradient_norm, 1);
    }
    if (entry.name == "affine") {
      EXPECT_FALSE(entry.recorded);
    }
  }
  EXPECT_THAT(steps, ElementsAre("", "sum", "mul", "relu", "matmul", "fc.weight"));
}

TEST(TapeListing, PrintsBothDirectionsAndTotals) {
  TapeListing listing({.gradient_norms = true});
  Pass().run(listing);
  const std::string text = listing.str();
  EXPECT_THAT(text, HasSubstr("1  affine  net     images        (2,3)   f64    not recorded"));
  EXPECT_THAT(text, HasSubstr("2  matmul  net.fc  1, fc.weight  (2,2)   f64    input"));
  EXPECT_THAT(text, HasSubstr("5  accumulate  fc.weight  (3,2)"));
  EXPECT_THAT(text, HasSubstr("forward   5 operators, 4 on the tape, "));
  EXPECT_THAT(text, HasSubstr("; 112 B kept for backward\n"));
  EXPECT_THAT(text, HasSubstr("beside    1 operators that no gradient passes, "));
}

TEST(TapeListing, WithoutATapeEveryOperatorIsListed) {
  TapeListing listing;
  const NoGrad off_tape;
  relu(affine(ones({2}, f64), 1, 1));
  EXPECT_EQ(listing.entries().size(), 3u);  // the ones, affine, relu
}

TEST(TapeListing, PutsThePreviousObserverBack) {
  TapeListing outer;
  { const TapeListing inner; }
  EXPECT_EQ(grad_mode.observer, &outer);
}

TEST(TextTable, AlignsByCodePointsAndDropsTrailingBlanks) {
  TextTable table({"name", ">n"});
  table.add({"\u2207x", "10"});
  table.add({"long name"});
  EXPECT_EQ(table.str("  "),
            "  name        n\n"
            "  ---------  --\n"
            "  \u2207x         10\n"
            "  long name\n");
}

TEST(TextTable, WrapsItsWidestColumnsOfTextWhereTheTerminalIsNarrow) {
  TextTable table({"layer", "operands", ">ms"});
  table.add({"layer1.0.conv1", "1, layer1.0.conv1.weight, layer1.0.conv1.bias", "0.071"});
  table.add({"fc", "2", "0.1"});
  EXPECT_EQ(table.str(" ", 34),
            " layer         operands         ms\n"
            " ------------  ------------  -----\n"
            " layer1.0.     1,            0.071\n"
            " conv1         layer1.0.\n"
            "               conv1.\n"
            "               weight,\n"
            "               layer1.0.\n"
            "               conv1.bias\n"
            " fc            2               0.1\n");
  EXPECT_EQ(wrap_text("ab cd  efghijk l", 5, CutWords::never),
            (std::vector<std::string>{"ab cd", "efghijk", "l"}));
  EXPECT_EQ(wrap_text("\u2207\u2207\u2207 \u2207", 3, CutWords::longest),
            (std::vector<std::string>{"\u2207\u2207\u2207", "\u2207"}));
}

}  // namespace
}  // namespace whisker
