// How good a network's outputs are: counted batch by batch, read at the end of a pass over the
// data. Each task has figures of its own.
#pragma once

#include "core/io/json.h"
#include "data/dataset.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// One number that says how good a network is.
struct Figure {
  std::string_view name;  ///< "accuracy", "f1", "mae", "rmse", "perplexity", ...
  double value = 0;
  bool higher_is_better = false;
};

class Metrics {
 public:
  virtual ~Metrics() = default;
  /// `outputs` f32 in host memory, as the network gave them (probabilities of a classification);
  /// `batch` with its labels in host memory.
  virtual void add(const Tensor& outputs, const Batch& batch) = 0;
  void add_loss(double mean_loss, int64_t examples);

  /// Examples counted (tokens of a language model).
  virtual int64_t count() const = 0;
  /// The mean over all examples.
  double loss() const;
  /// The task's own figures, the one that makes the best weights first.
  virtual std::vector<Figure> figures() const = 0;
  /// One of them, or loss. Throws usage naming those there are.
  Figure figure(std::string_view name) const;
  /// Loss and figures, "loss 0.3125 accuracy 0.9102".
  std::string line() const;

  /// Everything into the open object.
  virtual void write(JsonWriter& json) const = 0;
  /// What is to be said beyond line(), for people; may be empty.
  virtual std::string table() const { return {}; }

 private:
  double loss_sum_ = 0;
  int64_t loss_count_ = 0;
};

struct ClassReport {
  std::string name;
  int64_t examples = 0;  ///< with this label
  double precision = 0;  ///< right among those called this; 0 when none was
  double recall = 0;     ///< right among those that are this; 0 when there are none
  double f1 = 0;         ///< harmonic mean of the two
};

class ClassificationMetrics final : public Metrics {
 public:
  /// `top_k`: also count the label among the k most probable classes (0: do not). `examples` is
  /// what they are called.
  explicit ClassificationMetrics(std::vector<std::string> classes, int64_t top_k = 0,
                                 std::string examples = "pictures");

  void add(const Tensor& outputs, const Batch& batch) override;
  /// One row of class probabilities (or logits) and its label.
  void add(std::span<const float> scores, int64_t label);

  int64_t count() const override { return count_; }
  int64_t correct() const { return correct_; }
  double accuracy() const;
  /// Of two classes that of the second, else the mean over the classes (macro).
  double f1() const;
  /// Label among the top_k; nothing counted gives 0.
  double top_k_accuracy() const;
  int64_t top_k() const { return top_k_; }
  /// confusion()[label * classes + predicted].
  std::span<const int64_t> confusion() const { return confusion_; }
  int64_t classes() const { return std::ssize(names_); }
  std::vector<ClassReport> per_class() const;

  std::vector<Figure> figures() const override;
  /// Examples, loss, accuracy, f1, top_k when counted, per_class, confusion.
  void write(JsonWriter& json) const override;
  /// A per-class table and the confusion matrix.
  std::string table() const override;

 private:
  std::vector<std::string> names_;
  int64_t top_k_;
  std::string examples_;
  int64_t count_ = 0, correct_ = 0, top_k_correct_ = 0;
  std::vector<int64_t> confusion_;
};

/// Errors in the units of the data: outputs are scaled back first (data/series.h).
class RegressionMetrics final : public Metrics {
 public:
  void add(const Tensor& outputs, const Batch& batch) override;
  int64_t count() const override { return count_; }
  /// mae, rmse.
  std::vector<Figure> figures() const override;
  void write(JsonWriter& json) const override;
  /// The errors of the naive forecast, where there is one.
  std::string table() const override;

 private:
  struct Errors {
    double absolute = 0, square = 0;
    int64_t count = 0;
    void add(double error);
    double mae() const;
    double rmse() const;
  };
  int64_t count_ = 0;
  Errors own_, naive_;
};

/// Per token, from the loss: perplexity is its exponential, bits its value in base 2.
class LanguageMetrics final : public Metrics {
 public:
  explicit LanguageMetrics(bool characters) : characters_(characters) {}
  void add(const Tensor& outputs, const Batch& batch) override;
  int64_t count() const override { return count_; }
  /// perplexity, bits_per_character (of characters), accuracy of the most probable token.
  std::vector<Figure> figures() const override;
  void write(JsonWriter& json) const override;

 private:
  bool characters_;
  int64_t count_ = 0, correct_ = 0;
};

}  // namespace whisker
