#include "core/cuda/recurrent/recurrent_benchmark.h"

#include "core/cuda/autotune/stopwatch.h"

#include <cmath>

namespace whisker::cuda {

RecurrentBenchmark::RecurrentBenchmark(Context& context, const RecurrentGeometry& g,
                                       int64_t reserve_bytes) {
  const Device device{DeviceKind::cuda, context.device()};
  const auto make = [&](const Shape& shape) {
    return empty(shape, {.dtype = g.dtype, .device = device});
  };
  const auto noise = [&](const Shape& shape, double most) {
    const Tensor x = make(shape);
    kernels::noise(context.stream(), g.dtype, static_cast<float>(most), x.raw(), x.count());
    return x;
  };
  // As small as initial weights, so that no state grows from step to step.
  const double most = 1 / std::sqrt(static_cast<double>(g.hidden));
  const int64_t rows = g.gates() * g.hidden;
  for (int64_t cell = 0; cell < g.cells(); ++cell) {
    const auto parameters = [&](auto&& tensor) {
      RecurrentParameters p{.w_ih = tensor({rows, g.inputs(cell / g.directions)}),
                            .w_hh = tensor({rows, g.output()})};
      if (g.bias) p.b_ih = tensor({rows});
      if (g.bias) p.b_hh = tensor({rows});
      if (g.projection > 0) p.w_hr = tensor({g.projection, g.hidden});
      return p;
    };
    in.parameters.push_back(parameters([&](const Shape& shape) { return noise(shape, most); }));
    gradients.dparameters.push_back(parameters(make));
  }
  in.x = noise({g.steps, g.batch, g.features}, 1);
  gradients.dx = make({g.steps, g.batch, g.features});
  gradients.dy = noise({g.steps, g.batch, g.directions * g.output()}, 1);
  out.y = make({g.steps, g.batch, g.directions * g.output()});
  out.last.h = make({g.cells(), g.batch, g.output()});
  if (g.is_lstm()) out.last.c = make({g.cells(), g.batch, g.hidden});
  if (reserve_bytes > 0) {
    out.reserve = empty({reserve_bytes}, {.dtype = DType::u8, .device = device});
  }
}

}  // namespace whisker::cuda
