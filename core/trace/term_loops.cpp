// Each coordinate bounds the loops that it is made of: by what the loops inside can still add to
// it.
#include "core/trace/term_loops.h"

#include "core/trace/op_links.h"

#include <algorithm>

namespace whisker {
namespace {

// A coordinate while the loops run.
struct Bounds {
  size_t tensor;
  int64_t low, high;  // that it may have
  int64_t stride;     // of its axis
  int64_t at = 0;
};

// What a loop adds to a coordinate at each step, and the most that the loops within it add.
struct LoopStep {
  size_t bounds;
  int64_t factor, inside;
};

int64_t ceil_div(int64_t a, int64_t b) {
  return a > 0 ? (a + b - 1) / b : -(-a / b);
}
int64_t floor_div(int64_t a, int64_t b) {
  return -ceil_div(-a, b);
}

class Nest {
 public:
  Nest(std::vector<int64_t> extents, std::vector<Bounds> bounds,
       std::vector<std::vector<LoopStep>> steps, TermLoops::Elements elements,
       const std::function<void(const TermLoops::Elements&)>& at, int64_t most)
      : extents_(std::move(extents)),
        bounds_(std::move(bounds)),
        steps_(std::move(steps)),
        elements_(elements),
        at_(at),
        left_(most) {}

  void run(size_t loop = 0) {
    if (loop == extents_.size()) {
      --left_;
      at_(elements_);
      return;
    }
    int64_t first = 0, last = extents_[loop] - 1;
    for (const LoopStep& step : steps_[loop]) {
      const Bounds& one = bounds_[step.bounds];
      int64_t low = one.low - one.at - step.inside, high = one.high - one.at;
      if (step.factor > 1) {  // most are 1
        low = ceil_div(low, step.factor);
        high = floor_div(high, step.factor);
      }
      first = std::max(first, low);
      last = std::min(last, high);
    }
    for (int64_t counter = first; counter <= last && left_ > 0; ++counter) {
      move(loop, counter);
      run(loop + 1);
      move(loop, -counter);
    }
  }

 private:
  void move(size_t loop, int64_t by) {
    for (const LoopStep& step : steps_[loop]) {
      Bounds& one = bounds_[step.bounds];
      one.at += step.factor * by;
      elements_[one.tensor] += step.factor * by * one.stride;
    }
  }

  std::vector<int64_t> extents_;
  std::vector<Bounds> bounds_;
  std::vector<std::vector<LoopStep>> steps_;  // by loop
  TermLoops::Elements elements_;
  const std::function<void(const TermLoops::Elements&)>& at_;
  int64_t left_;
};

}  // namespace

size_t TermLoops::loop(int64_t extent) {
  extents_.push_back(extent);
  return extents_.size() - 1;
}

std::vector<LoopCoordinate> TermLoops::loops_over(const Shape& shape) {
  std::vector<LoopCoordinate> coordinates;
  for (const int64_t extent : shape) coordinates.push_back({extent, {{loop(extent), 1}}, 0});
  return coordinates;
}

void TermLoops::set(size_t tensor, std::vector<LoopCoordinate> coordinates) {
  coordinates_[tensor] = std::move(coordinates);
  is_set_[tensor] = true;
}

void TermLoops::visit(size_t tensor, int64_t element,
                      const std::function<void(const Elements&)>& at, int64_t most) const {
  if (element >= 0 && !is_set_[tensor]) return;
  std::vector<Bounds> bounds;
  std::vector<std::vector<LoopStep>> steps(extents_.size());
  Elements elements;
  for (size_t t = 0; t < most_tensors; ++t) {
    elements[t] = is_set_[t] ? 0 : -1;
    int64_t stride = 1, rest = element;
    for (size_t axis = coordinates_[t].size(); axis-- > 0;) {
      const LoopCoordinate& one = coordinates_[t][axis];
      if (one.extent <= 0) return;
      Bounds bound{
          .tensor = t, .low = 0, .high = one.extent - 1, .stride = stride, .at = one.offset};
      if (element >= 0 && t == tensor) {
        bound.low = bound.high = rest % one.extent;
        rest /= one.extent;
      }
      if (one.terms.empty() && (one.offset < bound.low || one.offset > bound.high)) return;
      std::vector<int64_t> factors(extents_.size(), 0);
      for (const auto& [loop, factor] : one.terms) factors[loop] = factor;
      int64_t inside = 0;
      for (size_t loop = extents_.size(); loop-- > 0;) {
        if (factors[loop] == 0) continue;
        steps[loop].push_back({bounds.size(), factors[loop], inside});
        inside += factors[loop] * (extents_[loop] - 1);
      }
      elements[t] += one.offset * stride;
      stride *= one.extent;
      bounds.push_back(bound);
    }
    if (element >= 0 && t == tensor && rest != 0) return;  // beyond the end
  }
  Nest(extents_, std::move(bounds), std::move(steps), elements, at, most).run();
}

}  // namespace whisker
