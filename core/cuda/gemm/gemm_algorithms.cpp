#include "core/cuda/gemm/gemm_algorithms.h"

#include "core/cuda/ops/launchers.h"

namespace whisker::cuda {
namespace {

constexpr int most_candidates = 16;

}  // namespace

void GemmAlgorithms::run(GemmRequest request, const GemmOperands& operands) {
  const void* const pointers[] = {operands.a, operands.b, operands.y, operands.bias};
  for (const void* const pointer : pointers) {
    while (reinterpret_cast<uintptr_t>(pointer) % request.alignment != 0) request.alignment /= 2;
  }
  TimedAlgorithms::run(request, operands);
}

void GemmAlgorithms::run_unfused(const GemmRequest& request, const GemmOperands& operands) {
  GemmRequest plain = request;
  plain.bias = plain.relu = plain.row_sums = false;
  if (request.row_sums) {
    output_gradient({.rows = request.k, .channels = request.m, .dtype = request.dtype}, {}, nullptr,
                    operands.a, nullptr, operands.bias, context_, allocator_);
  }
  run(plain, {.a = operands.a, .b = operands.b, .y = operands.y});
  if (request.row_sums) return;
  bias_activation(
      {.rows = request.batch * request.m, .channels = request.n, .dtype = request.dtype},
      {request.relu ? Activation::relu : Activation::none}, request.bias ? operands.bias : nullptr,
      nullptr, operands.y, context_.stream());
}

GemmAlgorithms::Pointer GemmAlgorithms::named(const GemmRequest& request,
                                              const GemmOperands& operands,
                                              const std::string& name) {
  return options_.without_libraries ? nullptr : cublas_lt_gemm(request)->named(name, operands);
}

GemmAlgorithms::Choice GemmAlgorithms::untimed(const GemmRequest& request,
                                               const GemmOperands& operands) {
  if (!options_.without_libraries) {
    const auto first = cublas_lt_gemm(request)->algorithms(operands, 1);
    if (!first.empty()) return {.algorithm = first.front()};
  }
  const bool direct =
      !request.row_sums && (options_.without_libraries || (!request.bias && !request.relu));
  const auto run = [this, request, direct](const KernelSite& site, const GemmOperands& o, void*) {
    direct ? direct_gemm(request, o, site.stream) : run_unfused(request, o);
  };
  // Never stored in the table.
  return {.algorithm =
              std::make_shared<FunctionAlgorithm<GemmOperands>>(direct ? "direct" : "unfused", run),
          .settled = true};
}

void GemmAlgorithms::propose(const GemmRequest& request, const GemmOperands& operands,
                             const Pointer& /*present*/, const Search& search) {
  for (const Pointer& candidate : cublas_lt_gemm(request)->algorithms(operands, most_candidates)) {
    if (!search.pays(0)) break;
    search.consider(candidate->name(), [&] { return candidate; });
  }
}

void GemmAlgorithms::linear(const LinearGeometry& g, bool tf32, const GemmOperands& o) {
  const bool relu = g.activation.kind == Activation::relu;
  const bool fused = relu || g.activation.kind == Activation::none;
  run({.dtype = g.dtype,
       .m = g.rows,
       .n = g.out,
       .k = g.in,
       .transpose_b = true,
       .bias = fused && o.bias,
       .relu = relu,
       .tf32 = tf32},
      {.a = o.a, .b = o.b, .y = o.y, .bias = fused ? o.bias : nullptr});
  if (fused) return;
  bias_activation({.rows = g.rows, .channels = g.out, .dtype = g.dtype}, g.activation, o.bias,
                  nullptr, o.y, context_.stream());
}

}  // namespace whisker::cuda
