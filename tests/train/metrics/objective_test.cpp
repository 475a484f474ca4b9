// The loss against its formulas, written out in doubles.
#include "train/metrics/objective.h"

#include "core/ops/ops.h"
#include "tests/support/error_of.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

Model model_of(const std::string& head, int64_t classes) {
  return build_model(YamlNode::parse("layers: [flatten, {dense: {" + head + "}}]", "m"),
                     {.input = {4, 2, 2, 3}, .classes = classes});
}

Batch batch_of(const std::vector<int64_t>& labels) {
  Batch batch;
  const auto rows = static_cast<int64_t>(labels.size());
  batch.inputs = zeros({rows, 2, 2, 3});
  batch.labels = empty({rows}, {.dtype = DType::i64});
  batch.indices.assign(labels.size(), 0);
  std::ranges::copy(labels, batch.labels.data<int64_t>().begin());
  return batch;
}

double softmax_loss(const std::vector<double>& row, const std::vector<double>& target) {
  double sum = 0, loss = 0;
  for (const double x : row) sum += std::exp(x);
  for (size_t i = 0; i < row.size(); ++i) loss -= target[i] * (row[i] - std::log(sum));
  return loss;
}

TEST(Objective, CrossEntropyWithSmoothingAndClassWeights) {
  const std::vector<double> a = {0.5, -1, 2}, b = {0, 3, 1};
  const Tensor logits = from_vector(std::vector<double>{0.5, -1, 2, 0, 3, 1}, {2, 3});
  const std::vector<int64_t> counts = {10, 20, 30};
  const Model model = model_of("units: classes", 3);
  const Batch batch = batch_of({2, 0});
  const auto loss = [&](const LossConfig& config) {
    return Objective(model, config, counts, cpu_device).loss(logits, batch).item();
  };
  EXPECT_NEAR(loss({}), (softmax_loss(a, {0, 0, 1}) + softmax_loss(b, {1, 0, 0})) / 2, 1e-6);
  // What is reported of a validation knows neither.
  const Objective weighted(model,
                           {.label_smoothing = 0.3, .class_weights = ClassWeighting::balanced},
                           counts, cpu_device);
  EXPECT_EQ(weighted.plain_loss(logits, batch).item(), loss({}));
  EXPECT_NE(weighted.loss(logits, batch).item(), loss({}));
  const double s = 0.3 / 3;
  EXPECT_NEAR(loss({.label_smoothing = 0.3}),
              (softmax_loss(a, {s, s, 0.7 + s}) + softmax_loss(b, {0.7 + s, s, s})) / 2, 1e-6);
  const double w0 = 60.0 / (3 * 10), w2 = 60.0 / (3 * 30);
  EXPECT_NEAR(loss({.class_weights = ClassWeighting::balanced}),
              (w2 * softmax_loss(a, {0, 0, 1}) + w0 * softmax_loss(b, {1, 0, 0})) / (w0 + w2),
              1e-6);
}

TEST(Objective, SoftLabelsOfMixup) {
  Batch batch = batch_of({1, 0});
  batch.soft_labels = from_vector(std::vector<double>{0.25, 0.75, 1, 0}, {2, 2});
  const Tensor logits = from_vector(std::vector<double>{0.5, -1, 2, 0}, {2, 2});
  const Objective objective(model_of("units: classes", 2), {}, std::vector<int64_t>{1, 1},
                            cpu_device);
  EXPECT_NEAR(objective.loss(logits, batch).item(),
              (softmax_loss({0.5, -1}, {0.25, 0.75}) + softmax_loss({2, 0}, {1, 0})) / 2, 1e-6);
}

TEST(Objective, OneSigmoidUnit) {
  const Model model = model_of("units: 1, activation: sigmoid", 2);
  const std::vector<int64_t> counts = {5, 5};
  const Tensor logits = from_vector(std::vector<double>{1.5, -0.5}, {2, 1});
  const auto binary = [](double x, double t) { return std::log1p(std::exp(x)) - t * x; };
  Batch batch = batch_of({1, 0});
  const auto loss = [&](const LossConfig& config) {
    return Objective(model, config, counts, cpu_device).loss(logits, batch).item();
  };
  EXPECT_NEAR(loss({}), (binary(1.5, 1) + binary(-0.5, 0)) / 2, 1e-6);
  EXPECT_NEAR(loss({.label_smoothing = 0.2}), (binary(1.5, 0.9) + binary(-0.5, 0.1)) / 2, 1e-6);
  EXPECT_EQ(Objective(model, {.label_smoothing = 0.2}, counts, cpu_device)
                .plain_loss(logits, batch)
                .item(),
            loss({}));
  batch.soft_labels = from_vector(std::vector<double>{0.75, 0.25, 0, 1}, {2, 2});
  EXPECT_NEAR(loss({}), (binary(1.5, 0.25) + binary(-0.5, 1)) / 2, 1e-6);
}

TEST(Objective, ModelDataAndLossMustGoTogether) {
  const std::vector<int64_t> two = {5, 5}, three = {5, 5, 5};
  const auto refused = [](const Model& model, const LossConfig& config,
                          const std::vector<int64_t>& counts, const char* says) {
    EXPECT_THAT(
        test::message_of(ErrorKind::usage,
                         [&] { const Objective objective(model, config, counts, cpu_device); }),
        testing::HasSubstr(says));
  };
  const Model sigmoid = model_of("units: 1, activation: sigmoid", 2);
  const Model softmax = model_of("units: classes", 2);
  refused(softmax, {}, three, "the last layer gives (4,2), the data have 3 classes");
  refused(sigmoid, {}, three, "3 classes");
  refused(softmax, {.kind = LossKind::binary_cross_entropy}, two,
          "needs a last layer of one sigmoid unit");
  refused(sigmoid, {.kind = LossKind::cross_entropy}, two, "needs one output per class");
  refused(sigmoid, {.class_weights = ClassWeighting::balanced}, two, "loss.class_weights");
}

}  // namespace
}  // namespace whisker
