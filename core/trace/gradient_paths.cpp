// First forwards: which elements the parameter reaches. Then each operator on the way is asked what
// arrives at these elements, and what each operand gets of it.
#include "core/trace/gradient_paths.h"

#include "core/trace/non_finite_origin.h"
#include "core/trace/op_links.h"

#include <algorithm>
#include <cmath>

namespace whisker {
namespace {

constexpr double unknown_norm = std::numeric_limits<double>::quiet_NaN();
constexpr double not_finite_norm = std::numeric_limits<double>::infinity();

double norm_of(const std::vector<double>& values, const ElementSet& at) {
  double squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!at.has(static_cast<int64_t>(i))) continue;
    if (!std::isfinite(values[i])) return not_finite_norm;
    squares += values[i] * values[i];
  }
  return std::sqrt(squares);
}

class GradientTracer {
 public:
  GradientTracer(const Recording& recording, size_t parameter, std::optional<int64_t> element)
      : recording_(recording), parameter_(parameter) {
    for (size_t i = 0; i < recording.entries.size(); ++i) {
      if (recording.entries[i].backward_step == 1) loss_ = i;
    }
    reach_from(element);
    if (loss_ && !uses_parameter(*loss_)) {
      through_unread_ = true;
      reach_from(element);
    }
    collect_given();
  }

  GradientPaths run() {
    GradientPaths result;
    find_ends(result.ends);
    if (loss_ && uses_parameter(*loss_)) {
      count_paths();
      result.count = counts_[*loss_];
      result.paths = shown_paths(*loss_);
    }
    return result;
  }

 private:
  using Key = std::pair<size_t, size_t>;  // an entry and its output

  const ElementSet& reached(const TapeInput& input) const {
    return reached_[input.entry][input.output];
  }
  const TapeOutput& tensor(const TapeInput& input) const {
    return recording_.entries[input.entry].outputs[input.output];
  }
  bool uses_parameter(size_t entry) const {
    const auto& inputs = recording_.entries[entry].inputs;
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](const TapeInput& one) { return reached(one).any(); });
  }

  void reach_from(std::optional<int64_t> element) {
    reached_.clear();
    users_.clear();
    read_.assign(recording_.entries.size(), false);
    for (const TapeEntry& entry : recording_.entries) reached_.emplace_back(entry.outputs.size());
    ElementSet& own = reached_[parameter_][0];
    if (element) {
      own.add(*element, recording_.entries[parameter_].outputs[0].shape);
    } else {
      own.all = true;
    }
    for (size_t i = parameter_ + 1; i < recording_.entries.size(); ++i) reach(i);
  }

  // Which elements of the results an operator makes of those that are reached.
  void reach(size_t index) {
    const TapeEntry& entry = recording_.entries[index];
    if (!uses_parameter(index)) return;
    users_.push_back(index);
    for (const TapeInput& input : entry.inputs) read_[input.entry] = true;
    const bool mixes = entry.name.find("_norm") != std::string::npos ||
                       entry.name.find("softmax") != std::string::npos;
    const bool known = !mixes && for_each_link(recording_, entry, [&](const OpLink& link) {
      for (const TapeInput& input : entry.inputs) {
        const size_t slot = input.position - link.first_position;  // wraps where it is before
        if (slot >= 4 || link.operands[slot] < 0 || !reached(input).has(link.operands[slot])) {
          continue;
        }
        reached_[index][link.output].add(link.element, entry.outputs[link.output].shape);
      }
    });
    const bool any = std::ranges::any_of(reached_[index], &ElementSet::any);
    if (known && (any || !through_unread_)) return;
    for (ElementSet& output : reached_[index]) output.all = true;
  }

  // What each operator gave to each tensor: the differences of the recorded sums.
  void collect_given() {
    std::map<Key, std::vector<double>> sums;
    for (const size_t index : recording_.backward_order()) {
      const TapeEntry& entry = recording_.entries[index];
      for (const TapeInput& input : entry.inputs) {
        if (reached(input).any()) givers_[{input.entry, input.output}].push_back(index);
      }
      for (const GivenGradient& given : entry.given) {
        const TapeInput& input = entry.inputs[given.input];
        if (!reached(input).any()) continue;
        const Key key{input.entry, input.output};
        std::vector<double> own = given.sum.all;
        const auto before = sums.find(key);
        if (!given.first && (before == sums.end() || before->second.size() != own.size())) continue;
        for (size_t i = 0; !given.first && i < own.size(); ++i) own[i] -= before->second[i];
        sums[key] = given.sum.all;
        given_[{index, key}] = std::move(own);
      }
    }
  }

  double norm_at(const TapeOutput& output, const ElementSet& at) const {
    if (!output.gradient.known()) return unknown_norm;
    if (!output.gradient.statistics) return norm_of(output.gradient.all, at);
    const TensorStatistics& statistics = *output.gradient.statistics;
    return statistics.not_finite > 0 ? not_finite_norm : statistics.norm;
  }

  // The norm of the gradient that arrives at those elements of the operator's results that the
  // parameter reaches. An operator that chooses among elements, and chose none of the parameter's,
  // counts with all elements of its results.
  double arrives(size_t index) const {
    static const ElementSet whole{.all = true};
    const TapeEntry& entry = recording_.entries[index];
    bool chosen = entry.name != "max_pool2d" && entry.name != "embedding";
    for (const ElementSet& one : reached_[index]) chosen = chosen || one.any();
    double squares = 0;
    bool known = false;
    for (size_t i = 0; i < entry.outputs.size(); ++i) {
      const double norm = norm_at(entry.outputs[i], chosen ? reached_[index][i] : whole);
      if (std::isnan(norm)) continue;
      squares += norm * norm;
      known = true;
    }
    return known ? std::sqrt(squares) : unknown_norm;
  }

  // The norm of the gradient that the operator `index` gives to its operand; NaN where it was not
  // recorded.
  double gives(size_t index, const TapeInput& input) const {
    const Key key{input.entry, input.output};
    if (const auto found = given_.find({index, key}); found != given_.end()) {
      return norm_of(found->second, reached(input));
    }
    const double sum = norm_at(tensor(input), reached(input));
    const auto givers = givers_.find(key);
    const bool alone = givers != givers_.end() && givers->second.size() == 1;
    return alone || sum == 0 ? sum : unknown_norm;
  }

  void find_ends(std::vector<GradientEnd>& ends) const {
    const TapeEntry& own = recording_.entries[parameter_];
    if (own.kind == TapeKind::constant) {
      ends.push_back({parameter_,
                      {"frozen",
                       "no gradient is asked of it: it is an input, const(...), or frozen by the "
                       "configuration (freeze)"}});
      return;
    }
    for (size_t i = users_.size(); i-- > 0;) find_ends_at(users_[i], ends);
    find_cancelled_sums(ends);
    if (users_.empty()) ends.push_back({parameter_, {"no path", "no operator reads it"}});
  }

  void find_ends_at(size_t index, std::vector<GradientEnd>& ends) const {
    const TapeEntry& entry = recording_.entries[index];
    if (!entry.recorded) {
      ends.push_back({index, unrecorded_loss(entry)});
      return;
    }
    if (entry.backward_step == 0) {
      if (!read_[index])
        ends.push_back({index, {"no path", "its result does not lead to the loss"}});
      return;
    }
    for (const TapeInput& input : entry.inputs) {
      if (!reached(input).any()) continue;
      auto end = end_at(index, input);
      const bool said = end && std::ranges::any_of(ends, [&](const GradientEnd& one) {
                          return one.entry == index && one.loss.reason == end->loss.reason &&
                                 one.loss.lost == end->loss.lost;
                        });  // of both operands of x - x
      if (end && !said) ends.push_back(std::move(*end));
    }
  }

  // Tensors whose gradient is 0, though operators that read them give them something.
  void find_cancelled_sums(std::vector<GradientEnd>& ends) const {
    for (const auto& [key, givers] : givers_) {
      const auto& [entry, output] = key;
      const ElementSet& at = reached_[entry][output];
      if (norm_at(recording_.entries[entry].outputs[output], at) != 0) continue;
      const bool any = std::ranges::any_of(givers, [&](size_t giver) {
        const auto given = given_.find({giver, key});
        return given != given_.end() && norm_of(given->second, at) > 0;
      });
      if (any) ends.push_back({entry, {"cancelled", "what its readers give adds up to 0"}});
    }
  }

  static LostGradient unrecorded_loss(const TapeEntry& entry) {
    return {entry.name == "detach" ? "detached" : "no path",
            fmt::format("{} passes no gradient", entry.name)};
  }

  // Whether what arrives at the operator, or all but a rest, is lost on the way to its operand.
  std::optional<GradientEnd> end_at(size_t index, const TapeInput& input) const {
    const TapeEntry& entry = recording_.entries[index];
    const double arriving = arrives(index);
    if (!(arriving > 0)) return {};
    const double given = gives(index, input);
    const auto losses = lost_gradients(recording_, entry, input, reached(input));
    if (given == 0) return GradientEnd{index, other_loss(recording_, entry, input, losses)};
    if (auto loss = nearly_lost(entry, input, losses, arriving, given)) {
      return GradientEnd{index, std::move(*loss), true};
    }
    return {};
  }

  void count_paths() {
    counts_.assign(recording_.entries.size(), 0);
    counts_[parameter_] = 1;
    for (const size_t index : users_) {
      for (const TapeInput& input : recording_.entries[index].inputs) {
        if (reached(input).any()) counts_[index] += counts_[input.entry];
      }
    }
  }

  // The operands that lead to the parameter, that with the largest gradient first.
  std::vector<const TapeInput*> ways(size_t index) const {
    std::vector<std::pair<double, const TapeInput*>> sized;
    for (const TapeInput& input : recording_.entries[index].inputs) {
      if (!reached(input).any() || index == parameter_) continue;
      const double given = gives(index, input);
      sized.emplace_back(std::isnan(given) ? 0 : given, &input);
    }
    std::stable_sort(sized.begin(), sized.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<const TapeInput*> result;
    for (const auto& [given, input] : sized) result.push_back(input);
    return result;
  }

  // Depth first from the loss. Every way leads to the parameter.
  std::vector<std::vector<GradientHop>> shown_paths(size_t loss) const {
    struct Step {
      size_t index;
      std::vector<const TapeInput*> ways;
      size_t taken = 0;
    };
    std::vector<std::vector<GradientHop>> paths;
    std::vector<Step> steps = {{loss, ways(loss)}};
    while (!steps.empty() && paths.size() < GradientPaths::most_shown) {
      Step& last = steps.back();
      if (last.index == parameter_) {
        paths.emplace_back();
        for (size_t i = 0; i + 1 < steps.size(); ++i) {
          paths.back().push_back(hop(steps[i].index, steps[i].ways, steps[i].taken));
        }
        const Step& from = steps[steps.size() - 2];
        paths.back().push_back(last_hop(from.index, *from.ways[from.taken - 1]));
      }
      if (last.taken == last.ways.size()) {
        steps.pop_back();
        continue;
      }
      const size_t next = last.ways[last.taken++]->entry;
      steps.push_back({next, ways(next)});
    }
    return paths;
  }

  GradientHop hop(size_t index, const std::vector<const TapeInput*>& ways_on, size_t taken) const {
    const TapeEntry& entry = recording_.entries[index];
    const TapeInput& input = *ways_on[taken - 1];
    GradientHop result{index, arrives(index),
                       lost_gradients(recording_, entry, input, reached(input))};
    std::optional<GradientEnd> end = end_at(index, input);
    const bool asked = recording_.entries[parameter_].kind != TapeKind::constant;
    if (!entry.recorded && asked) end = GradientEnd{index, unrecorded_loss(entry)};
    const auto said = [&](const LostGradient& one) { return one.reason == end->loss.reason; };
    if (end && std::ranges::none_of(result.losses, said)) result.losses.push_back(end->loss);
    return result;
  }

  // The parameter's row, behind the operator `from` of the path: what that gives it, where that is
  // nothing, though others give it something.
  GradientHop last_hop(size_t from, const TapeInput& input) const {
    const bool silent = recording_.entries[from].backward_step == 0;
    const double given = silent ? unknown_norm : gives(from, input);
    const double sum = norm_at(recording_.entries[parameter_].outputs[0], reached_[parameter_][0]);
    return {parameter_, silent || given == 0 ? given : sum};
  }

  const Recording& recording_;
  size_t parameter_;
  /// Where no term reads the parameter on any way to the loss, all that its readers give counts, so
  /// that the way on from there is shown.
  bool through_unread_ = false;
  std::vector<bool> read_;  // entries that an operator on the way reads
  std::optional<size_t> loss_;
  std::vector<std::vector<ElementSet>> reached_;  // of each entry's results
  std::vector<size_t> users_;                     // operators that the parameter reaches
  std::map<Key, std::vector<size_t>> givers_;
  std::map<std::pair<size_t, Key>, std::vector<double>> given_;
  std::vector<double> counts_;
};

}  // namespace

GradientPaths GradientPaths::of(const Recording& recording, size_t parameter,
                                std::optional<int64_t> element) {
  GradientPaths result = GradientTracer(recording, parameter, element).run();
  const TapeOutput& own = recording.entries[parameter].outputs[0];
  result.parameter = parameter;
  result.element = element;
  result.elements = element ? 1 : own.shape.count();
  const RecordedValues& gradient = own.gradient;
  if (element && !gradient.all.empty()) {
    result.norm = std::abs(gradient.all[static_cast<size_t>(*element)]);
    result.zeros = result.norm == 0;
    result.not_finite = !std::isfinite(result.norm);
  } else if (gradient.known()) {
    const TensorStatistics summary = gradient.summary();
    result.norm = summary.norm;
    result.zeros = summary.zeros;
    result.not_finite = summary.not_finite;
  } else {
    result.zeros = result.elements;
  }
  if (result.not_finite > 0) {
    if (const auto origin = NonFiniteOrigin::of(recording)) result.first_not_finite = origin->entry;
  }
  return result;
}

}  // namespace whisker
