// What is said of inputs that are unlike the training data, and of training data that teach
// nothing.
#include "data/sequences/text_input.h"
#include "data/sequences/text_stream.h"
#include "tests/data/sequences/table_file.h"

#include <cmath>

#include <gmock/gmock.h>

namespace whisker::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class UnlikeTraining : public TableFile {
 protected:
  /// Rows of a sine, `hours` apart.
  static std::string hourly(int hours, double scale = 1, double offset = 0) {
    std::string csv = "time,temp\n";
    for (int i = 0; i < 40; ++i) {
      const int hour = hours * i;
      csv += fmt::format("2023-01-{:02} {:02}:00,{:.4f}\n", 1 + hour / 24, hour % 24,
                         offset + scale * (20 + 5 * std::sin(i)));
    }
    return csv;
  }
  SeriesInput trained(SeriesInput input, const std::string& csv) const {
    const Series train = series(csv, input);
    input.step_seconds = train.step_seconds;
    fit_scaling(train, {.begin = 0, .end = train.rows()}, input);
    return SeriesInput::from_json(input.json(), "w");
  }
  std::vector<std::string> notes(const SeriesInput& input, const std::string& csv) const {
    return series(csv, input).notes;
  }
};

TEST_F(UnlikeTraining, OtherStepsOfASeries) {
  SeriesInput input = trained({.columns = {"temp"}, .targets = {"temp"}, .window = 3}, hourly(1));
  EXPECT_EQ(input.step_seconds, 3600);
  EXPECT_THAT(notes(input, hourly(1)), IsEmpty());
  EXPECT_THAT(
      notes(input, hourly(2)),
      ElementsAre(HasSubstr("t.csv: rows are 2 h apart, in the training data 1 h: a network "
                            "takes them for the same")));
  input.step_seconds = 0;  // of older weights
  EXPECT_THAT(notes(SeriesInput::from_json(input.json(), "w"), hourly(2)), IsEmpty());
}

TEST_F(UnlikeTraining, OtherValuesOfASeries) {
  const SeriesInput input =
      trained({.columns = {"temp"}, .targets = {"temp"}, .window = 3}, hourly(1));
  EXPECT_THAT(notes(input, hourly(1, 1, 273.15)),
              ElementsAre(HasSubstr("t.csv: unlike the training data, as in other units: column "
                                    "'temp' with mean 293.3 and deviation 3.5")));
  EXPECT_THAT(notes(input, hourly(1, 12, -220)), testing::SizeIs(1)) << "the deviation";
  EXPECT_THAT(notes(input, hourly(1, 1.2, 1)), IsEmpty());
  // Differences do not know the offset.
  const SeriesInput changes =
      trained({.columns = {"temp"}, .targets = {"temp"}, .window = 3, .difference = 1}, hourly(1));
  EXPECT_THAT(notes(changes, hourly(1, 1, 273.15)), IsEmpty());
}

TEST_F(UnlikeTraining, OtherRows) {
  const auto csv = [](int count, int steps, double scale) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += i % 2 == 0 ? "up" : "down";
      for (int t = 0; t < steps; ++t) text += fmt::format(",{:.3f}", scale * std::sin(i + t));
      text += "\n";
    }
    return text;
  };
  const LabelledRows train = rows(csv(8, 6, 1));
  RowsInput input{
      .most_steps = 6, .scaling = {Scaling::fitted_to(train.values[0])}, .least_steps = 6};
  EXPECT_THAT(unlike_training(rows(csv(4, 6, 1)), input), IsEmpty());
  EXPECT_THAT(unlike_training(rows(csv(4, 3, 1)), input),
              ElementsAre(HasSubstr("t.csv: 4 of 4 rows are longer or shorter than those of "
                                    "training: 3 steps here, 6 steps there")));
  EXPECT_THAT(unlike_training(rows(csv(4, 6, 1000)), input),
              ElementsAre(HasSubstr("as in other units: values with mean")));
  EXPECT_THAT(unlike_training(rows(csv(1, 6, 0.01)), input), IsEmpty()) << "a part may vary less";
  EXPECT_THAT(unlike_training(rows(csv(40, 6, 0.01)), input), testing::SizeIs(1));
}

// 0.1 has no exact mean, which once made a deviation of 1e-17.
TEST(Scalings, ValuesThatAreAllTheSameAreNamed) {
  const std::vector<double> tenths(300, 0.1), ramp = {1, 2, 3};
  const std::vector<Scaling> scaling = {Scaling::fitted_to(ramp), Scaling::fitted_to(tenths)};
  EXPECT_EQ(scaling[1].deviation, 1);
  EXPECT_LT(Scaling::fitted_to(tenths, 2).deviation, 1e-10) << "runs of older rules keep theirs";
  const std::vector<std::string> names = {"column 'a'", "column 'b'"};
  EXPECT_EQ(
      constant_note(scaling, names),
      "column 'b' is the same in all training rows, 0.1: a network learns nothing from it, and "
      "other values will not be scaled");
  EXPECT_EQ(constant_note(std::span(scaling).first(1), names), "");
}

// As carbon monoxide in the air of UCI, where -200 is no measurement.
TEST(Scalings, ValuesThatMayStandForMissingOnesAreNamed) {
  std::vector<double> values = {-200, 2.6, -200, 0.5, 11.9, NAN, 1, 2, 3, 4, -200, 5};
  EXPECT_EQ(placeholder_note(values, "column 'CO'"),
            "column 'CO' holds -200 in 3 of 11 rows, and 0.5 to 11.9 in the others: if it stands "
            "for a missing value, leave the field empty");
  EXPECT_EQ(placeholder_note({-200, 2, -200, 3, 4, 5, 6, 7, 8, 9}, "a"), "") << "twice";
  EXPECT_EQ(placeholder_note({-9, -9, -9, 1, 2, 3, 4, 5, 6, 17}, "a"), "") << "not far";
  EXPECT_EQ(placeholder_note({-1, -1, -1, 1, 1, 1, 1, 1, 1, 1, 1}, "a"), "") << "two kinds";
  EXPECT_EQ(placeholder_note({0, 0, 0, 91, 92, 93, 94, 95, 96, 97, 98}, "a"), "");
  EXPECT_EQ(placeholder_note({NAN}, "a"), "");
}

TEST(TextStream, TokensThatFillNoStepAreCounted) {
  const std::vector<int64_t> tokens(41, 2);
  EXPECT_EQ(TextStream(tokens, {.rows = 4}).unread_note(), "");
  EXPECT_EQ(TextStream(tokens, {.rows = 7}).unread_note(),
            "the last 5 of 41 tokens are not read, as the 7 rows of a batch are equally long "
            "(train.batch_size, of evaluate --batch-size)");
}

}  // namespace
}  // namespace whisker::test
