// The numbers that stand for the names of a rule's terms, at one term. Internal to core/trace.
#pragma once

#include "core/trace/formula.h"
#include "core/trace/op_links.h"
#include "core/trace/rule_table.h"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace whisker {

/// How far a number that is computed here in f64 may be from one of the operator, in `dtype`,
/// relative to the size of the terms. Wide: it tells a right formula from a wrong one.
double relative_tolerance(DType dtype);
/// The activation fused into `entry`, of z; z where there is none.
double activated(const TapeEntry& entry, double z);

class TermNumbers {
 public:
  TermNumbers(const Recording& recording, const TapeEntry& entry, const OpRule& rule);

  /// The terms of one result, and how many of them equal it: for n and ties.
  void set_count(double count, double ties) {
    count_ = count;
    ties_ = ties;
  }
  /// NaN for what was not recorded.
  double value(std::string_view name, const OpLink& link) const;
  double evaluate(const Formula& f, const OpLink& link) const;
  /// The formula's text with numbers for names; in brackets where it binds looser than `outer`.
  std::string put_in(const Formula& f, const OpLink& link, int outer = 0) const;

  /// The elements that an element is normalised with: `channels` beside each other in each row of
  /// the last axis, `size` in all; 0 of operators that are no norms.
  struct NormGroup {
    int64_t first = 0, channels = 1, size = 0;
  };
  NormGroup norm_group(int64_t element) const;

 private:
  int64_t saved_element(const OpLink& link) const;
  double row_sum(std::string_view name, const OpLink& link) const;
  double loss_value(std::string_view name, const OpLink& link) const;
  double norm_value(std::string_view name, const OpLink& link) const;

  const Recording& recording_;
  const TapeEntry& entry_;
  const OpRule& rule_;
  std::array<const TapeOutput*, 4> operands_ = {};
  Formula dz_;
  bool norm_ = false;
  double count_ = 1, ties_ = 1;
  /// By the first element: mean and inv_std of a group, or the sum of exp(x) of a row of
  /// cross_entropy and the factor of another class's probability.
  mutable std::map<int64_t, std::pair<double, double>> statistics_;
  mutable std::map<int64_t, std::pair<double, double>> gradient_means_;  ///< of u and u * xhat
};

}  // namespace whisker
