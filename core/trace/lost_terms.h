// The terms of an operator's rule at which a gradient is lost, counted by the elements that lose
// it. Internal to core/trace.
#pragma once

#include "core/trace/gradient_paths.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace whisker {

// What a reason is about: elements of the result, of the other factor or of the operand that loses
// the gradient, or the operand's rows.
enum class Subject : uint8_t { result, factor, operand, row };

struct LostTerm {
  LostGradient loss;  // no cause: the gradient goes on
  Subject subject = Subject::result;
};

// An operator's terms at which a gradient arrives, and those that are lost, by their reason. A
// reason holds for an element, which several terms may share.
class TermCount {
 public:
  using Elements = std::array<int64_t, 4>;  // by Subject; -1: none

  void add(const Elements& at, LostTerm lost) {
    ++terms_;
    for (size_t i = 0; i < at.size(); ++i) all_[i].add(at[i]);
    if (lost.loss.cause.empty()) return;
    const auto found = std::find_if(lost_.begin(), lost_.end(), [&](const Counted& one) {
      return one.loss.cause == lost.loss.cause && one.loss.reason == lost.loss.reason;
    });
    const bool first = found == lost_.end();
    Counted& own = first ? lost_.emplace_back() : *found;
    if (first) own.loss = std::move(lost.loss);
    own.subject = static_cast<size_t>(lost.subject);
    ++own.loss.terms;
    own.elements.add(at[own.subject]);
  }

  std::vector<LostGradient> losses() const {
    std::vector<LostGradient> result;
    for (const Counted& one : lost_) {
      LostGradient loss = one.loss;
      loss.lost = one.elements.count;
      loss.of = all_[one.subject].count;
      loss.of_terms = terms_;
      if (one.subject == static_cast<size_t>(Subject::row)) loss.unit = "row";
      result.push_back(std::move(loss));
    }
    return result;
  }

 private:
  struct Distinct {
    std::vector<bool> seen;
    int64_t count = 0;
    void add(int64_t element) {
      if (element < 0) return;
      const auto at = static_cast<size_t>(element);
      if (at >= seen.size()) seen.resize(at + 1);
      count += !seen[at];
      seen[at] = true;
    }
  };
  struct Counted {
    LostGradient loss;
    size_t subject = 0;
    Distinct elements;
  };
  int64_t terms_ = 0;
  std::array<Distinct, 4> all_;
  std::vector<Counted> lost_;
};

}  // namespace whisker
