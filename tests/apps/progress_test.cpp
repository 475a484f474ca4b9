// What `whisker train` says of a step.
#include "apps/terminal/progress.h"

#include <gtest/gtest.h>

namespace whisker {
namespace {

TEST(Progress, AStatusLineLeavesOutWhatIsNotKnownYet) {
  StepEvent event{.examples_per_s = 1234.4, .wait_share = 0.021, .seconds_left = 65};
  EXPECT_EQ(status_text(event, 80), "1234 examples/s  wait 2 %  1 min 05 s left");
  event.epoch_loss = 0.25;
  EXPECT_EQ(status_text(event, 80), "loss 0.2500  1234 examples/s  wait 2 %  1 min 05 s left");
  event.epoch_accuracy = 0.5;
  EXPECT_EQ(status_text(event, 80),
            "loss 0.2500  acc 0.500  1234 examples/s  wait 2 %  1 min 05 s left");
}

TEST(Progress, AStatusLineOfSeveralRanksNamesASlowOne) {
  StepEvent event{.examples_per_s = 1234.4, .wait_share = 0.021, .seconds_left = 65};
  event.ranks = {.communication = 0.043, .slowest = 3, .excess = 0.05};
  EXPECT_EQ(status_text(event, 80), "1234 examples/s  wait 2 %  comm 4 %  1 min 05 s left");
  event.ranks->excess = 0.25;
  EXPECT_EQ(status_text(event, 80),
            "1234 examples/s  wait 2 %  comm 4 %  rank 3 25 % slower  1 min 05 s left");
}

TEST(Progress, ANarrowStatusLineLeavesOutTheLeastImportant) {
  const StepEvent event{.epoch_loss = 123456.25,
                        .epoch_accuracy = 0.5,
                        .examples_per_s = 1234567,
                        .wait_share = 1,
                        .seconds_left = 36000};
  const std::string whole = status_text(event, 1000);
  EXPECT_EQ(whole, "loss 123456.2500  acc 0.500  1234567 examples/s  wait 100 %  10 h 00 min left");
  EXPECT_EQ(status_text(event, static_cast<int>(whole.size())), whole);
  EXPECT_EQ(status_text(event, static_cast<int>(whole.size()) - 1),
            "loss 123456.2500  acc 0.500  1234567 examples/s  10 h 00 min left");
  EXPECT_EQ(status_text(event, 50), "loss 123456.2500  acc 0.500  10 h 00 min left");
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

TEST(Progress, SecondsAreSaidAsPeopleDo) {
  EXPECT_EQ(human_seconds(4.24), "4.2 s");
  EXPECT_EQ(human_seconds(185), "3 min 05 s");
  EXPECT_EQ(human_seconds(3720), "1 h 02 min");
}

}  // namespace
}  // namespace whisker
