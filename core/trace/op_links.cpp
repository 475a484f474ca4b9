// OpTermList as loops, and what values decide on top of them: the maximum of a window, an index.
#include "core/trace/op_links.h"

#include "core/trace/op_terms.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace whisker {
namespace {

// Which terms are wanted: all, those of an element of a result, or those of an element of an operand.
struct Wanted {
  enum class Of : uint8_t { all, result, operand } of = Of::all;
  size_t number = 0;  // output or position
  int64_t element = -1;
  int64_t most = all_links;
};

void visit_loops(const OpTerms& terms, const Wanted& wanted, const RecordedValues* index,
                 const LinkVisit& visit) {
  size_t tensor = 0;
  int64_t element = wanted.element;
  if (wanted.of == Wanted::Of::result && wanted.number != terms.output) return;
  if (wanted.of == Wanted::Of::operand) {
    tensor = 1 + wanted.number - terms.first_position;
    if (tensor - 1 >= 4) return;  // wraps round where it is before
    if (terms.indexed > 0) {
      element = element / (terms.indexed * terms.inner) * terms.inner + element % terms.inner;
    }
  }
  const auto at_term = [&](const TermLoops::Elements& at) {
    OpLink link{.element = at[0],
                .operands = {at[1], at[2], at[3], at[4]},
                .output = terms.output,
                .first_position = terms.first_position};
    if (terms.indexed > 0) {
      const double row = index->at(at[0] / terms.per);
      if (!(row >= 0 && row < static_cast<double>(terms.indexed))) return;
      link.operands[0] =
          (at[1] / terms.inner * terms.indexed + static_cast<int64_t>(row)) * terms.inner +
          at[1] % terms.inner;
      if (wanted.of == Wanted::Of::operand && link.operands[0] != wanted.element) return;
    }
    visit(link);
  };
  terms.loops.visit(tensor, element, at_term, wanted.most);
}

// The terms of max pooling alone: where each window has its maximum, by the values of what it
// reads.
class MaxPool {
 public:
  using ValueAt = std::function<double(int64_t)>;
  MaxPool(OpTerms terms, ValueAt value) : terms_(std::move(terms)), value_(std::move(value)) {}

  // The first of equal ones; -1 of a window without elements.
  int64_t maximum(int64_t y) const {
    const auto [known, is_new] = maxima_.try_emplace(y, -1);
    int64_t& best = known->second;
    if (!is_new) return best;
    double largest = 0;
    each(0, y, [&](const TermLoops::Elements& at) {
      const double value = value_(at[1]);
      if (best >= 0 && !(value > largest)) return;
      best = at[1];
      largest = value;
    });
    return best;
  }
  // Calls `at` with each window's element of y, and its maximum: of all windows, of y, or where `x`
  // is the maximum.
  void visit(const Wanted& wanted, int64_t y_count,
             const std::function<void(int64_t, int64_t)>& at) const {
    const auto of_window = [&](int64_t y) {
      const int64_t x = maximum(y);
      if (x >= 0 && (wanted.of != Wanted::Of::operand || x == wanted.element)) at(y, x);
    };
    if (wanted.of == Wanted::Of::result) {
      of_window(wanted.element);
    } else if (wanted.of == Wanted::Of::operand) {
      each(1, wanted.element, [&](const TermLoops::Elements& found) { of_window(found[0]); });
    } else {
      for (int64_t y = 0; y < y_count; ++y) of_window(y);
    }
  }

 private:
  void each(size_t tensor, int64_t element,
            const std::function<void(const TermLoops::Elements&)>& at) const {
    terms_.loops.visit(tensor, element, at);
  }
  OpTerms terms_;
  ValueAt value_;
  mutable std::unordered_map<int64_t, int64_t> maxima_ = {};
};

bool max_pool_links(const Recording& recording, const TapeEntry& entry, const Wanted& wanted,
                    const LinkVisit& visit) {
  const std::vector<OpTerms> terms = terms_of(recording, entry);
  const TapeOutput* const x = operand_at(recording, entry, 0);
  if (terms.empty() || !x->value.readable()) return false;
  const MaxPool pool(terms[0], [&](int64_t i) { return x->value.at(i); });
  pool.visit(wanted, entry.shape().count(), [&](int64_t y, int64_t at) {
    visit({.element = y, .operands = {at, -1, -1, -1}});
  });
  return true;
}

// Those of the convolution inside, at each window's maximum alone.
bool conv_max_pool_links(const Recording& recording, const TapeEntry& entry, const Wanted& wanted,
                         const LinkVisit& visit) {
  constexpr std::string_view then = ", max_pool2d, ";
  const TapeOutput* const x = operand_at(recording, entry, 0);
  const size_t pool_begin = entry.attributes.find(then);
  if (!x || x->shape.rank() != 4 || entry.shape().rank() != 4 || pool_begin == std::string::npos) {
    return false;
  }
  TapeEntry conv = entry;
  conv.name = "conv2d";
  conv.attributes = entry.attributes.substr(0, pool_begin);
  const TapeEntry pooling{.name = {},
                          .attributes = entry.attributes.substr(pool_begin + then.size())};
  Shape z = entry.shape();
  for (const int axis : {1, 2}) {
    const auto number = [&](std::string_view name) {
      const std::vector<int64_t> both = integers_of(conv, name, 2, 0, most_recorded_values);
      return both.empty() ? int64_t{0} : both[static_cast<size_t>(axis) - 1];
    };
    const int64_t room =
        x->shape[axis] + 2 * number("padding") - number("dilation") * (number("kernel") - 1) - 1;
    if (room < 0 || number("stride") == 0) return false;
    z = z.with(axis, room / number("stride") + 1);
  }
  conv.outputs = {{.shape = z, .dtype = entry.dtype()}};
  const std::vector<OpTerms> terms = terms_of(recording, conv);
  if (wanted.of == Wanted::Of::all && z.count() > most_recorded_values) return false;
  if (terms.empty() || !windows_fit(pooling, z, entry.shape())) return false;
  for (const TapeInput& input : entry.inputs) {
    if (!operand_at(recording, entry, input.position)->value.readable()) return false;
  }
  const auto value = [&](int64_t i, size_t position) {
    return operand_at(recording, entry, position)->value.at(i);
  };
  const auto of_conv = [&](const Wanted& of, const LinkVisit& at) {
    for (const OpTerms& one : terms) visit_loops(one, of, nullptr, at);
  };
  std::unordered_map<int64_t, double> z_values;
  const auto z_at = [&](int64_t element) {
    const auto [known, is_new] = z_values.try_emplace(element, 0);
    double& sum = known->second;
    if (!is_new) return sum;
    of_conv({Wanted::Of::result, 0, element}, [&](const OpLink& link) {
      sum += link.operands[0] < 0 ? value(link.operands[2], 2)
                                  : value(link.operands[0], 0) * value(link.operands[1], 1);
    });
    return sum;  // of monotone activations the largest has the largest sum
  };
  const MaxPool pool(window_terms(pooling, z, entry.shape()), z_at);
  const auto emit = [&](OpLink link, int64_t y) {
    link.element = y;
    visit(link);
  };
  if (wanted.of != Wanted::Of::operand) {
    pool.visit(wanted, entry.shape().count(), [&](int64_t y, int64_t at) {
      of_conv({Wanted::Of::result, 0, at}, [&](const OpLink& link) { emit(link, y); });
    });
    return true;
  }
  of_conv(wanted, [&](const OpLink& link) {
    pool.visit({Wanted::Of::operand, 0, link.element}, 0,
               [&](int64_t y, int64_t) { emit(link, y); });
  });
  return true;
}

bool visit_links(const Recording& recording, const TapeEntry& entry, const Wanted& wanted,
                 const LinkVisit& visit) {
  if (entry.name == "max_pool2d") return max_pool_links(recording, entry, wanted, visit);
  if (entry.name == "conv2d_max_pool2d") {
    return conv_max_pool_links(recording, entry, wanted, visit);
  }
  const std::vector<OpTerms> terms = terms_of(recording, entry);
  for (const OpTerms& one : terms) {
    visit_loops(one, wanted, one.indexed > 0 ? &entry.saved[0].value : nullptr, visit);
  }
  return !terms.empty();
}

}  // namespace

std::vector<int64_t> strides_over(const Shape& shape) {
  std::vector<int64_t> strides(static_cast<size_t>(shape.rank()));
  int64_t count = 1;
  for (size_t axis = strides.size(); axis-- > 0;) {
    strides[axis] = count;
    count *= shape[static_cast<int>(axis)];
  }
  return strides;
}

const TapeOutput* operand_at(const Recording& recording, const TapeEntry& entry, size_t position) {
  for (const TapeInput& input : entry.inputs) {
    if (input.position == position) return &recording.entries[input.entry].outputs[input.output];
  }
  return nullptr;
}

bool has_small_tensors(const Recording& recording, const TapeEntry& entry) {
  const auto is_small = [](const TapeOutput& tensor) {
    return tensor.shape.count() > 0 && tensor.shape.count() <= most_recorded_values;
  };
  bool small = std::all_of(entry.outputs.begin(), entry.outputs.end(), is_small);
  for (const TapeInput& input : entry.inputs) {
    small = small && is_small(recording.entries[input.entry].outputs[input.output]);
  }
  return small;
}

bool for_each_link(const Recording& recording, const TapeEntry& entry, const LinkVisit& visit) {
  return has_small_tensors(recording, entry) && visit_links(recording, entry, {}, visit);
}

bool for_each_link_of(const Recording& recording, const TapeEntry& entry, size_t output,
                      int64_t element, const LinkVisit& visit, int64_t most) {
  return visit_links(recording, entry, {Wanted::Of::result, output, element, most}, visit);
}

bool for_each_link_from(const Recording& recording, const TapeEntry& entry, size_t position,
                        int64_t element, const LinkVisit& visit, int64_t most) {
  return visit_links(recording, entry, {Wanted::Of::operand, position, element, most}, visit);
}

}  // namespace whisker
