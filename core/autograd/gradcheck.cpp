// (f(x + h) - f(x - h)) / 2h, error O(h^2).
#include "core/autograd/gradcheck.h"

#include "core/autograd/autograd.h"
#include "core/tensor/philox.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

namespace whisker {
namespace {

constexpr uint64_t weight_stream = stream_of("gradcheck.weights");
constexpr uint64_t element_stream = stream_of("gradcheck.elements");

std::vector<double> result_weights(int64_t count, uint64_t seed) {
  if (count == 1) return {1.0};
  PhiloxStream random(seed, weight_stream);
  std::vector<double> weights(static_cast<size_t>(count));
  for (double& weight : weights) weight = random.uniform(0.5, 1.5);
  return weights;
}

double weighted(const Tensor& result, uint64_t seed) {
  const std::vector<double> values = result.to_vector();
  const std::vector<double> weights = result_weights(result.count(), seed);
  return std::inner_product(values.begin(), values.end(), weights.begin(), 0.0);
}

// Floyd's sampling (Bentley and Floyd 1987), sorted.
std::vector<int64_t> draw_elements(int64_t count, const GradcheckOptions& options,
                                   uint64_t stream) {
  std::vector<int64_t> picks;
  if (options.elements <= 0 || options.elements >= count) {
    picks.resize(static_cast<size_t>(count));
    std::iota(picks.begin(), picks.end(), int64_t{0});
    return picks;
  }
  PhiloxStream random(options.seed, element_stream + stream);
  for (int64_t last = count - options.elements; last < count; ++last) {
    const auto pick = static_cast<int64_t>(random.uniform() * static_cast<double>(last + 1));
    const bool taken = std::find(picks.begin(), picks.end(), pick) != picks.end();
    picks.push_back(taken ? last : pick);
  }
  std::sort(picks.begin(), picks.end());
  return picks;
}

// See Note [Kinks]: measured with these steps, far below any distance to a kink nearby that
// matters.
constexpr double kink_steps[] = {1e-7, 1e-8};

struct Slopes {
  double left = 0, right = 0, central = 0;
};

class Check {
 public:
  Check(const std::function<Tensor()>& f, const GradcheckOptions& options)
      : f_(f), options_(options) {}

  // Leaves d(weights . f())/d(input) in the inputs.
  void run_backward() {
    const Tensor result = f_();
    value_ = weighted(result, options_.seed);
    const auto weights = result_weights(result.count(), options_.seed);
    backward(result, {.gradient = from_vector(weights, result.shape(), result.options())});
  }

  GradcheckResult run(const GradcheckInput& input, uint64_t stream) {
    const Tensor& x = input.tensor;
    const auto picks = draw_elements(x.count(), options_, stream);
    // No gradient arrived: f does not depend on x, and the slopes must be 0, too.
    const Tensor arrived = x.grad();
    std::vector<double> gradients;
    std::vector<Slopes> slopes;
    scale_ = options_.floor * std::max(1.0, std::fabs(value_));
    for (const int64_t pick : picks) {
      gradients.push_back(arrived.defined() ? arrived.data<double>()[static_cast<size_t>(pick)]
                                            : 0.0);
      slopes.push_back(slopes_at(x, pick, options_.step));
      for (const double size : {gradients.back(), slopes.back().central}) {
        if (std::isfinite(size)) scale_ = std::max(scale_, std::fabs(size));
      }
    }
    GradcheckResult result{.name = input.name,
                           .shape = x.shape(),
                           .checked = static_cast<int64_t>(picks.size()),
                           .error = -1,
                           .sweep = std::vector<double>(options_.sweep.size())};
    for (size_t i = 0; i < picks.size(); ++i) {
      const double gradient = gradients[i];
      double slope = slopes[i].central, error = 0;
      if (const std::optional<Slopes> kink = kink_at(x, picks[i], slopes[i])) {
        const auto [low, high] = std::minmax(kink->left, kink->right);
        slope = std::clamp(gradient, low, high);
        error = error_of(gradient, slope);
        result.kinks.push_back({picks[i], kink->left, kink->right, gradient});
      } else {
        error = error_of(gradient, slope);
        double step = options_.step;
        for (int retry = 0; retry < 3 && error > options_.tolerance; ++retry) {
          step /= 10;
          const double measured = slopes_at(x, picks[i], step).central;
          if (error_of(gradient, measured) < error) {
            slope = measured;
            error = error_of(gradient, measured);
          }
        }
        for (size_t k = 0; k < result.sweep.size(); ++k) {
          const double measured = slopes_at(x, picks[i], options_.sweep[k]).central;
          result.sweep[k] = std::max(result.sweep[k], error_of(gradient, measured));
        }
      }
      if (error <= result.error) continue;
      result.error = error;
      result.index = picks[i];
      result.gradient = gradient;
      result.slope = slope;
    }
    result.error = std::max(result.error, 0.0);  // an empty tensor
    result.passed = result.error <= options_.tolerance;
    return result;
  }

 private:
  double error_of(double gradient, double measured) const {
    const double error = std::fabs(gradient - measured) / scale_;
    return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
  }

  Slopes slopes_at(const Tensor& x, int64_t pick, double step) {
    std::optional<NoGrad> off_tape;
    if (!options_.on_tape) off_tape.emplace();
    double& element = x.data<double>()[static_cast<size_t>(pick)];
    const double at = element;
    element = at + step;
    const double above = weighted(f_(), options_.seed);
    const double upper = element;
    element = at - step;
    const double below = weighted(f_(), options_.seed);
    const double lower = element;
    element = at;
    return {.left = (value_ - below) / (at - lower),
            .right = (above - value_) / (upper - at),
            .central = (above - below) / (upper - lower)};
  }

  // The slopes differ by more than curvature or rounding explains.
  bool differ(const Slopes& slopes, double step) const {
    const double rounding =
        16 * std::numeric_limits<double>::epsilon() * std::max(1.0, std::fabs(value_)) / step;
    return std::fabs(slopes.right - slopes.left) > std::max(1e-3 * scale_, rounding);
  }

  std::optional<Slopes> kink_at(const Tensor& x, int64_t pick, Slopes slopes) {
    if (!differ(slopes, options_.step)) return {};
    for (const double step : kink_steps) {
      slopes = slopes_at(x, pick, step);
      if (!differ(slopes, step)) return {};
    }
    return slopes;
  }

  const std::function<Tensor()>& f_;
  const GradcheckOptions& options_;
  double value_ = 0, scale_ = 1;
};

}  // namespace

std::vector<GradcheckResult> gradcheck(const std::function<Tensor()>& f,
                                       std::span<const GradcheckInput> inputs,
                                       const GradcheckOptions& options) {
  for (const GradcheckInput& input : inputs) {
    if (input.tensor.dtype() != DType::f64 || !(input.tensor.device() == reference_device)) {
      fail(ErrorKind::usage, "gradcheck: {}: expected f64 on the reference device, got {} on {}.",
           input.name, input.tensor.dtype(), input.tensor.device());
    }
    if (!input.tensor.requires_grad()) input.tensor.set_requires_grad();
    input.tensor.zero_grad();
  }
  Check check(f, options);
  check.run_backward();
  std::vector<GradcheckResult> results;
  for (const GradcheckInput& input : inputs) results.push_back(check.run(input, results.size()));
  return results;
}

std::string position_in(const Shape& shape, int64_t index) {
  std::vector<int64_t> position(static_cast<size_t>(shape.rank()));
  for (int axis = shape.rank(); axis-- > 0;) {
    position[static_cast<size_t>(axis)] = index % shape[axis];
    index /= shape[axis];
  }
  return fmt::format("({})", fmt::join(position, ","));
}

}  // namespace whisker
