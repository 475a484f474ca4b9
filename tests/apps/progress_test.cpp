// What `whisker train` says of a step, and the curves at its end.
#include "apps/terminal/progress.h"

#include "apps/terminal/loss_curves.h"

#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

TEST(Progress, AStatusLineLeavesOutWhatIsNotKnownYet) {
  StepEvent event{.examples_per_s = 1234.4, .wait_share = 0.021};
  EXPECT_EQ(status_text(event, 90), "1234 examples/s  wait 2 %");
  event.epoch_seconds_left = 65;
  EXPECT_EQ(status_text(event, 90), "1234 examples/s  wait 2 %  65 s of this epoch");
  event.run_seconds_left = 540;
  event.epoch_loss = 0.25;
  EXPECT_EQ(status_text(event, 90),
            "loss 0.2500  1234 examples/s  wait 2 %  65 s of this epoch, 9 min of the run");
  event.epoch_accuracy = 0.5;
  EXPECT_EQ(status_text(event, 90),
            "loss 0.2500  acc 0.500  1234 examples/s  wait 2 %  65 s of this epoch, 9 min of the "
            "run");
}

TEST(Progress, AStatusLineOfSeveralRanksNamesASlowOne) {
  StepEvent event{.examples_per_s = 1234.4, .wait_share = 0.021, .epoch_seconds_left = 65};
  event.ranks = {.communication = 0.043, .slowest = 3, .excess = 0.05};
  EXPECT_EQ(status_text(event, 80), "1234 examples/s  wait 2 %  comm 4 %  65 s of this epoch");
  event.ranks->excess = 0.25;
  EXPECT_EQ(status_text(event, 80),
            "1234 examples/s  wait 2 %  comm 4 %  rank 3 25 % slower  65 s of this epoch");
}

TEST(Progress, ANarrowStatusLineLeavesOutTheLeastImportant) {
  const StepEvent event{.epoch_loss = 123456.25,
                        .epoch_accuracy = 0.5,
                        .examples_per_s = 1234567,
                        .wait_share = 1,
                        .epoch_seconds_left = 36,
                        .run_seconds_left = 36000};
  const std::string whole = status_text(event, 1000);
  EXPECT_EQ(whole,
            "loss 123456.2500  acc 0.500  1234567 examples/s  wait 100 %  36 s of this epoch, "
            "10 h 00 min of the run");
  EXPECT_EQ(status_text(event, static_cast<int>(whole.size())), whole);
  EXPECT_EQ(status_text(event, static_cast<int>(whole.size()) - 1),
            "loss 123456.2500  acc 0.500  1234567 examples/s  36 s of this epoch, 10 h 00 min of "
            "the run");
  EXPECT_EQ(status_text(event, 70), "loss 123456.2500  36 s of this epoch, 10 h 00 min of the run");
  EXPECT_EQ(status_text(event, 1), "10 h 00 min left");
}

TEST(Progress, AnEpochTakesAsManyLinesAsTheColumnsAsk) {
  const std::vector<std::string> parts = {"epoch 100/100", "train loss 0.1234 accuracy 0.9876",
                                          "val loss 0.1234 accuracy 0.9876 f1 0.9876 (best)",
                                          "1 min 05 s"};
  const std::string wide = lines_of(parts, 200);
  EXPECT_EQ(wide,
            "epoch 100/100  train loss 0.1234 accuracy 0.9876  val loss 0.1234 accuracy 0.9876 f1 "
            "0.9876 (best)  1 min 05 s");
  EXPECT_EQ(lines_of(parts, static_cast<int>(wide.size())), wide);
  EXPECT_EQ(lines_of(parts, static_cast<int>(wide.size()) - 1),
            "epoch 100/100  train loss 0.1234 accuracy 0.9876  val loss 0.1234 accuracy 0.9876 f1 "
            "0.9876 (best)\n  1 min 05 s");
  EXPECT_EQ(lines_of(parts, 80),
            "epoch 100/100  train loss 0.1234 accuracy 0.9876\n"
            "  val loss 0.1234 accuracy 0.9876 f1 0.9876 (best)  1 min 05 s");
}

TEST(LossCurves, ColumnsAreMeansOfWhatFallsIntoThem) {
  const std::vector<double> values = {8, 7, 6, 5, 4, 3, 2, 1, 0};
  EXPECT_EQ(block_curve(values, 0, 8, 20), "██▇▆▅▄▃▂▁");
  EXPECT_EQ(block_curve(values, 0, 8, 3), "█▅▂");
  EXPECT_EQ(block_curve(std::vector{8.0, std::nan(""), 0.0}, 0, 8, 3), "█ ▁");
  EXPECT_EQ(block_curve(std::vector{2.0, 2.0}, 2, 2, 3), "▁▁");
}

TEST(LossCurves, BothLossesAreOnOneScale) {
  std::string text = R"({"kind":"step","loss":9})"
                     "\n";
  const auto add = [&](int epoch, const char* train, const char* val) {
    text += fmt::format(R"({{"kind":"epoch","epoch":{},"train_loss":{}{}}})"
                        "\n",
                        epoch, train, val);
  };
  const auto curves = [&](size_t columns) {
    std::istringstream lines(text);
    return loss_curves(lines, columns);
  };
  add(1, "4", "");
  add(2, "2", R"(,"val_loss":1)");
  EXPECT_EQ(curves(80), "") << "of two epochs there is no curve";
  add(3, "null", R"(,"val_loss":0)");
  add(4, "1", R"(,"val_loss":0.5)");
  EXPECT_EQ(curves(80),
            "loss over 4 epochs:\n  training    █▅ ▃  4.0000 to 1.0000\n"
            "  validation   ▃▁▂  1.0000 to 0.5000, lowest 0.0000");
}

TEST(Progress, SecondsAreSaidAsPeopleDo) {
  EXPECT_EQ(human_seconds(4.24), "4.2 s");
  EXPECT_EQ(human_seconds(185), "3 min 05 s");
  EXPECT_EQ(human_seconds(3720), "1 h 02 min");
  EXPECT_EQ(rounded_seconds(0.4), "0 s");
  EXPECT_EQ(rounded_seconds(41.4), "41 s");
  EXPECT_EQ(rounded_seconds(545), "9 min");
  EXPECT_EQ(rounded_seconds(7530), "2 h 06 min");
}

}  // namespace
}  // namespace whisker
