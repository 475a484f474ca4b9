#include "train/inference/label_issues.h"

#include "core/tensor/philox.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace whisker {
namespace {

TEST(LabelIssues, FindsTheFlippedLabelsOfClusters) {
  constexpr size_t n = 150, d = 6;
  PhiloxStream random(3, stream_of("clusters"));
  std::vector<float> features;
  std::vector<int64_t> labels;
  std::set<int64_t> flipped;
  for (size_t i = 0; i < n; ++i) {
    const size_t c = i % 3;
    for (size_t j = 0; j < d; ++j) {
      features.push_back((j == c ? 3.0f : 0.0f) + uniform_from(random.next()));
    }
    const bool flips = i % 19 == 7;
    if (flips) flipped.insert(static_cast<int64_t>(i));
    labels.push_back(static_cast<int64_t>(flips ? (c + 1) % 3 : c));
  }
  const std::vector<LabelIssue> found = find_label_issues(features, labels, 3, 1);
  std::set<int64_t> examples;
  for (const LabelIssue& one : found) {
    examples.insert(one.example);
    EXPECT_EQ(one.suggested, one.example % 3);
    EXPECT_EQ(one.label, labels[static_cast<size_t>(one.example)]);
    EXPECT_LT(one.label_probability, one.suggested_probability);
    EXPECT_LT(one.neighbours_with_label, 5);
  }
  EXPECT_EQ(examples, flipped);
  EXPECT_TRUE(std::ranges::is_sorted(found, {}, &LabelIssue::label_probability));
  const std::vector<LabelIssue> again = find_label_issues(features, labels, 3, 1);
  ASSERT_EQ(again.size(), found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(again[i].example, found[i].example);
    EXPECT_EQ(again[i].label_probability, found[i].label_probability);
  }
}

TEST(LabelIssues, EvenChancesAreNoError) {
  constexpr size_t n = 200;
  PhiloxStream random(5, stream_of("overlap"));
  std::vector<float> features;
  std::vector<int64_t> labels;
  for (size_t i = 0; i < n; ++i) {  // two classes that overlap by half
    labels.push_back(static_cast<int64_t>(i % 2));
    for (int j = 0; j < 2; ++j) {
      features.push_back((i % 2 == 0 ? 0.5F : 0.0F) + uniform_from(random.next()));
    }
  }
  const std::vector<LabelIssue> found = find_label_issues(features, labels, 2, 1);
  EXPECT_GT(found.size(), 0U);
  for (const LabelIssue& one : found) {
    EXPECT_GE(one.suggested_probability, 2 * one.label_probability);
  }
}

}  // namespace
}  // namespace whisker
