// One element of a result or of a gradient as the sum of its terms, with numbers. Internal to
// core/trace.
#pragma once

#include "core/trace/op_links.h"
#include "core/trace/recording.h"
#include "core/trace/unfused_operator.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

/// What an element of a large tensor may be the sum of, so that recording stays quick.
inline constexpr size_t most_example_terms = 8'192;

/// The text of the first terms, and the value of all.
struct TermSum {
  std::string text, activation;  ///< through which the sum goes
  double value = 0, size = 0;    ///< `size` of the terms without their signs
  size_t terms = 0;

  bool is_full() const { return terms > most_example_terms; }
  void add(double term, const std::string& shown);
  /// `shown` is the text of one of the first terms.
  /// "name = 1 * 2 + 3 * 4 = 14"
  std::string str(const std::string& name, double recorded) const;
  bool agrees(double recorded, DType dtype) const;

  static constexpr size_t shown_terms = 3;
};

/// The positions of values, that of the largest first.
std::vector<int64_t> by_size(const std::vector<double>& values);

/// Of one operator, which is run again where it is a fused one.
class LocalExamples {
 public:
  LocalExamples(const Recording& recording, const TapeEntry& entry);

  /// The terms of an element of the first result.
  TermSum forward(int64_t element) const;
  /// The terms of what this gives to the gradient of an element of the operand at `position`.
  TermSum backward(size_t position, int64_t element) const;
  bool is_unfused() const { return unfused_.has_value(); }
  /// How many elements a norm reads for the mean of `element`; 0 of other operators.
  int64_t normalized_with(int64_t element) const;

 private:
  const Recording& recording_;
  const TapeEntry& entry_;
  std::optional<UnfusedOperator> unfused_;
};

}  // namespace whisker
