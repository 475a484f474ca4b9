// What `whisker train` says of a step.
#include "apps/progress.h"

#include <gtest/gtest.h>

namespace whisker {
namespace {

TEST(Progress, AStatusLineLeavesOutWhatIsNotKnownYet) {
  StepEvent event{.examples_per_s = 1234.4, .wait_share = 0.021, .seconds_left = 65};
  EXPECT_EQ(status_text(event), "1234 examples/s  data wait 2 %  1 min 05 s left");
  event.loss = 0.25;
  EXPECT_EQ(status_text(event), "loss 0.2500  1234 examples/s  data wait 2 %  1 min 05 s left");
  event.accuracy = 0.5;
  EXPECT_EQ(status_text(event),
            "loss 0.2500  accuracy 0.500  1234 examples/s  data wait 2 %  1 min 05 s left");
  EXPECT_EQ(status_text(event, true),
            "loss 0.2500  acc 0.500  1234 examples/s  wait 2 %  1 min 05 s left");
}

TEST(Progress, SecondsAreSaidAsPeopleDo) {
  EXPECT_EQ(human_seconds(4.24), "4.2 s");
  EXPECT_EQ(human_seconds(185), "3 min 05 s");
  EXPECT_EQ(human_seconds(3720), "1 h 02 min");
}

}  // namespace
}  // namespace whisker
