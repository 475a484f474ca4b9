// What a classifier got right: counted from predictions, read at the end of a pass over the data.
#pragma once

#include "core/io/json.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace whisker {

struct ClassReport {
  std::string name;
  int64_t pictures = 0;  ///< with this label
  double precision = 0;  ///< right among those called this; 0 when none was
  double recall = 0;     ///< right among those that are this; 0 when there are none
  double f1 = 0;         ///< harmonic mean of the two
};

class ClassificationMetrics {
 public:
  /// `top_k`: also count the label among the k most probable classes (0: do not).
  explicit ClassificationMetrics(int64_t classes, int64_t top_k = 0);

  /// One row of class probabilities (or logits), its label and its loss.
  void add(std::span<const float> scores, int64_t label);
  void add_loss(double mean_loss, int64_t pictures);

  int64_t count() const { return count_; }
  int64_t correct() const { return correct_; }
  double loss() const;
  double accuracy() const;
  /// Label among the top_k; nothing counted gives 0.
  double top_k_accuracy() const;
  int64_t top_k() const { return top_k_; }
  /// confusion()[label * classes + predicted].
  std::span<const int64_t> confusion() const { return confusion_; }
  int64_t classes() const { return classes_; }
  std::vector<ClassReport> per_class(std::span<const std::string> names) const;

  /// Fields accuracy, loss, top_k when counted, per_class, confusion into the open object.
  void write(JsonWriter& json, std::span<const std::string> names) const;
  /// The same for people: a per-class table and the confusion matrix.
  std::string table(std::span<const std::string> names) const;

 private:
  int64_t classes_;
  int64_t top_k_;
  int64_t count_ = 0, correct_ = 0, top_k_correct_ = 0, loss_count_ = 0;
  double loss_sum_ = 0;
  std::vector<int64_t> confusion_;
};

}  // namespace whisker
