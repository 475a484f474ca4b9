// Metrics of a network's outputs: accumulated batch by batch, read after a pass over the data. Each
// task has its own.
#pragma once

#include "core/io/json.h"
#include "data/dataset.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace whisker {

/// One metric and its value.
struct Figure {
  std::string_view name;  ///< "accuracy", "f1_macro", "mae", "rmse", "perplexity", ...
  double value = 0;
  bool higher_is_better = false;
  std::string of = {};   ///< the class that it is of; "" for all
  bool measured = true;  ///< false: the class has no examples, which JSON has as null
  /// "f1_class(spam)".
  std::string label() const;
  /// figure_text() of the value, or "not measured".
  std::string text() const;
  /// The value for JSON, which has NaN as null: that of what is not measured.
  double json_value() const;
};

/// "0.9102", "0.0001234", "1.0799 x 10^157"; a word for a value that overflowed, which JSON has as
/// null.
std::string figure_text(double value);

/// A number that metrics count, to read or to add to.
using Count = std::variant<int64_t*, double*>;

class Metrics {
 public:
  virtual ~Metrics() = default;
  /// `outputs`: f32 in host memory, from the network (for classification, probabilities). `batch`:
  /// its labels in host memory.
  virtual void add(const Tensor& outputs, const Batch& batch) = 0;
  void add_loss(double mean_loss, int64_t examples);
  /// Calls `counts` on all that is counted, in a fixed order: how the ranks of a run add theirs.
  void visit(const std::function<void(Count)>& counts);

  /// Examples counted (tokens of a language model).
  virtual int64_t count() const = 0;
  /// The mean over all examples.
  double loss() const;
  /// The task's metrics; the first selects the best weights.
  virtual std::vector<Figure> figures() const = 0;
  /// One of them, or loss. Throws usage, listing the valid names.
  virtual Figure figure(std::string_view name) const;
  /// Loss and metrics: "loss 0.3125 accuracy 0.9102".
  std::string line() const;

  /// Writes everything into the open object.
  virtual void write(JsonWriter& json) const = 0;
  /// Further text output beside line(), with lines of at most `columns` where possible; may be
  /// empty.
  virtual std::string table(int columns) const;

 protected:
  /// What line() has beside figures().
  virtual std::vector<Figure> more_figures() const { return {}; }

 private:
  virtual void visit_own(const std::function<void(Count)>& counts) = 0;

  double loss_sum_ = 0;
  int64_t loss_count_ = 0;
};

struct ClassReport {
  std::string name;
  int64_t examples = 0;   ///< with this label
  int64_t predicted = 0;  ///< as this class
  double precision = 0;   ///< correct among those predicted as this; 0 when none was
  double recall = 0;      ///< correct among those of this class; 0 when there are none
  double f1 = 0;          ///< harmonic mean of the two

  /// Whether it has examples, or wrong predictions, which precision measures.
  bool occurs() const { return examples > 0 || predicted > 0; }
};

class ClassificationMetrics final : public Metrics {
 public:
  /// `top_k`: also count labels among the k most probable classes (0: do not). `examples`: their
  /// name in messages. `positive_class`: one of the classes, for f1_class; "": none.
  explicit ClassificationMetrics(std::vector<std::string> classes, int64_t top_k = 0,
                                 std::string examples = "images", std::string positive_class = "");

  void add(const Tensor& outputs, const Batch& batch) override;
  /// One row of class probabilities (or logits) and its label.
  void add(std::span<const float> scores, int64_t label);

  int64_t count() const override { return count_; }
  int64_t correct() const { return correct_; }
  double accuracy() const;
  /// The mean F1 of the classes that occur, as labels or predictions (scikit-learn's macro
  /// average).
  double f1_macro() const;
  /// What runs that began before f1_macro call f1: that of the second of two classes, else the mean
  /// over all classes, those that do not occur counting 0.
  double f1_of_old_runs() const;
  /// Fraction with the label among the top_k; 0 when nothing was counted.
  double top_k_accuracy() const;
  int64_t top_k() const { return top_k_; }
  /// confusion()[label * classes + predicted].
  std::span<const int64_t> confusion() const { return confusion_; }
  int64_t classes() const { return std::ssize(names_); }
  std::vector<ClassReport> per_class() const;

  /// accuracy, f1_macro and, with a positive class, f1_class.
  std::vector<Figure> figures() const override;
  /// Also "f1", of old runs.
  Figure figure(std::string_view name) const override;
  /// Writes examples, loss, accuracy, f1_macro, f1_class and positive_class where there is one,
  /// top_k when counted, per_class, confusion.
  void write(JsonWriter& json) const override;
  /// A per-class table and, for up to 20 classes, the confusion matrix.
  std::string table(int columns) const override;

 private:
  void visit_own(const std::function<void(Count)>& counts) override;
  std::vector<Figure> more_figures() const override;
  Figure f1_class(const ClassReport& report) const;
  std::string confusion_table(const std::vector<std::string>& names, int columns) const;

  std::vector<std::string> names_;
  int64_t top_k_;
  std::string examples_, positive_class_;
  int64_t count_ = 0, correct_ = 0, top_k_correct_ = 0;
  std::vector<int64_t> confusion_;
};

/// Errors in the units of the data: outputs are scaled back first (data/sequences/series.h).
class RegressionMetrics final : public Metrics {
 public:
  /// `season`: SeriesInput::season, which the naive forecast goes by.
  explicit RegressionMetrics(int64_t season) : season_(season) {}
  void add(const Tensor& outputs, const Batch& batch) override;
  int64_t count() const override { return count_; }
  /// mae, rmse.
  std::vector<Figure> figures() const override;
  void write(JsonWriter& json) const override;
  /// The errors of the naive forecast, where there is one.
  std::string table(int columns) const override;

 private:
  void visit_own(const std::function<void(Count)>& counts) override;
  struct Errors {
    double absolute = 0, square = 0;
    int64_t count = 0;
    void add(double error);
    double mae() const;
    double rmse() const;
  };
  int64_t season_;
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
  void visit_own(const std::function<void(Count)>& counts) override;
  bool characters_;
  int64_t count_ = 0, correct_ = 0;
};

}  // namespace whisker
