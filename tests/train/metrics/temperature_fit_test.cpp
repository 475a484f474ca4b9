// The temperature that SciPy 1.18's minimize_scalar finds for the same logits, and what is refused.
#include "train/metrics/temperature_fit.h"

#include "tests/support/error_of.h"
#include "train/model/calibration_record.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::HasSubstr;

void add_rows(LogitRows& rows, const std::vector<float>& logits,
              const std::vector<double>& labels) {
  const auto count = std::ssize(labels);
  Tensor tensor = empty({count, std::ssize(logits) / count}, {.dtype = DType::f32});
  std::ranges::copy(logits, tensor.data<float>().begin());
  Batch batch;
  batch.labels = from_vector(labels, {count}, {.dtype = DType::i64});
  rows.add(tensor, batch);
}

// 200 rows of four logits; the label is the largest one's in 60 %, else any.
LogitRows many_rows() {
  uint64_t state = 2024;
  const auto next = [&] {
    state = (state * 1103515245 + 12345) % (uint64_t{1} << 31);
    return static_cast<double>((state >> 8) % 1001) / 1000;
  };
  LogitRows rows;
  for (int i = 0; i < 200; ++i) {
    std::vector<float> logits;
    for (int c = 0; c < 4; ++c) logits.push_back(static_cast<float>(8 * next() - 4));
    const auto top = std::ranges::max_element(logits) - logits.begin();
    const double label = next() < 0.6 ? static_cast<double>(top) : std::floor(next() * 3.999);
    add_rows(rows, logits, {label});
  }
  return rows;
}

TEST(TemperatureFit, IsTheOneThatSciPyFinds) {
  RankGroup one;
  const TemperatureFit fit = many_rows().fit(one);
  EXPECT_NEAR(fit.temperature, 2.177487522493455, 1e-6);
  EXPECT_NEAR(fit.loss_before, 1.2812149338663317, 1e-12);
  EXPECT_NEAR(fit.loss_after, 1.076067500527162, 1e-12);
  EXPECT_NEAR(fit.error_before, 0.18400095880031586, 1e-7);
  EXPECT_NEAR(fit.error_after, 0.22930340334773064, 1e-6);
}

// Three of four are right, whatever the logit: the best probability is 3/4, of logits 2 log 3 / 2.
TEST(TemperatureFit, OfOneLogitAndOfTwo) {
  RankGroup one;
  LogitRows single, pairs;
  add_rows(single, {2, 2, 2, -2}, {1, 1, 0, 0});
  add_rows(pairs, {0, 2, 0, 2, 0, 2, 2, 0}, {1, 1, 0, 0});
  EXPECT_NEAR(single.fit(one).temperature, 2 / std::log(3.0), 1e-9);
  EXPECT_NEAR(pairs.fit(one).temperature, 2 / std::log(3.0), 1e-9);
}

TEST(TemperatureFit, LogitsOfAnySizeAreSafe) {
  RankGroup one;
  LogitRows rows;
  add_rows(rows, {0, 100, 0, 100, 0, 100, 100, 0}, {1, 1, 0, 0});
  EXPECT_NEAR(rows.fit(one).temperature, 100 / std::log(3.0), 1e-7);
}

TEST(TemperatureFit, IsRefusedWhereNoneIsBest) {
  RankGroup one;
  LogitRows right, sure, wrong, equal;
  add_rows(right, {0, 2, 2, 0}, {1, 0});
  add_rows(sure, {0, 2e4F, 2e4F, 0}, {1, 0});
  add_rows(wrong, {0, 2, 2, 0}, {0, 1});
  add_rows(equal, {1, 1, 1, 1}, {0, 1});
  EXPECT_THAT(message_of(ErrorKind::data, [&] { right.fit(one); }), HasSubstr("wrong in none"));
  EXPECT_THAT(message_of(ErrorKind::data, [&] { sure.fit(one); }), HasSubstr("wrong in none"));
  EXPECT_THAT(message_of(ErrorKind::data, [&] { wrong.fit(one); }), HasSubstr("does not tell"));
  EXPECT_THAT(message_of(ErrorKind::data, [&] { equal.fit(one); }), HasSubstr("does not tell"));
}

TEST(CalibrationRecord, ComesBackAndKnowsItsExamples) {
  std::vector<uint64_t> contents = {7, 0, 3, 7};
  CalibrationRecord record{.temperature = 1.5, .data = {"val"}, .examples = 3};
  record.contents = content_sample(contents);
  const CalibrationRecord read = CalibrationRecord::from_json(record.json(), "w.safetensors");
  EXPECT_EQ(read.temperature, 1.5);
  EXPECT_EQ(read.contents, std::vector<uint64_t>({3, 7}));
  EXPECT_EQ(read.text(), "1.5000, fitted to 3 examples of val");
  EXPECT_EQ(read.fraction_fitted(std::vector<uint64_t>{3, 7, 8, 9}), 0.5);
  EXPECT_EQ(read.fraction_fitted({}), 0);
  // A sample of many tells a part, and what is not among them.
  contents.clear();
  uint64_t state = 1;
  for (int i = 0; i < 100'000; ++i) contents.push_back(state = state * 6364136223846793005u + 1);
  record.contents = content_sample(std::span(contents).first(50'000));
  EXPECT_EQ(record.contents.size(), 1024);
  EXPECT_EQ(record.fraction_fitted(std::span(contents).first(50'000)), 1);
  EXPECT_NEAR(record.fraction_fitted(contents), 0.5, 0.05);
  EXPECT_EQ(record.fraction_fitted(std::span(contents).last(50'000)), 0);
}

}  // namespace
}  // namespace whisker::test
