#include "core/cuda/gemm/gemm_algorithms.h"

#include "core/cuda/ops/launchers.h"

namespace whisker::cuda {
namespace {

constexpr int most_candidates = 16;

uint8_t alignment(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  uint8_t bytes = 16;
  while (address % bytes != 0) bytes = static_cast<uint8_t>(bytes / 2);
  return bytes;
}

/// Serves without cuBLASLt, or where that has nothing, and is never stored in the table.
class LastResort final : public GemmAlgorithm {
 public:
  LastResort(GemmAlgorithms& all, const GemmRequest& request, bool direct)
      : all_(all), request_(request), direct_(direct) {}
  std::string name() const override { return direct_ ? "direct" : "unfused"; }
  void run(const KernelSite& site, const GemmOperands& operands, void*) const override {
    direct_ ? direct_gemm(request_, operands, site.stream) : all_.run_unfused(request_, operands);
  }

 private:
  GemmAlgorithms& all_;
  GemmRequest request_;
  bool direct_;
};

}  // namespace

void GemmAlgorithms::run(GemmRequest request, const GemmOperands& operands) {
  request.a_alignment = alignment(operands.a);
  request.b_alignment = alignment(operands.b);
  request.y_alignment = alignment(operands.y);
  request.bias_alignment = alignment(operands.bias);
  TimedAlgorithms::run(request, operands);
}

void GemmAlgorithms::run_unfused(const GemmRequest& request, const GemmOperands& operands) {
  GemmRequest plain = request;
  plain.epilogue = GemmEpilogue::none;
  const bool relu =
      request.epilogue == GemmEpilogue::relu || request.epilogue == GemmEpilogue::bias_relu;
  if (request.epilogue == GemmEpilogue::row_sums) {
    output_gradient({.rows = request.k, .channels = request.m, .dtype = request.dtype}, {}, nullptr,
                    operands.a, nullptr, operands.bias, context_, allocator_);
  }
  run(plain, {.a = operands.a, .b = operands.b, .y = operands.y});
  if (request.epilogue == GemmEpilogue::row_sums) return;
  bias_activation(
      {.rows = request.batch * request.m, .channels = request.n, .dtype = request.dtype},
      {relu ? Activation::relu : Activation::none},
      request.epilogue == GemmEpilogue::relu ? nullptr : operands.bias, nullptr, operands.y,
      context_.stream());
}

GemmAlgorithms::Pointer GemmAlgorithms::named(const GemmRequest& request,
                                              const GemmOperands& operands,
                                              const std::string& name) {
  return options_.without_libraries ? nullptr : in_library(request)->named(name, operands);
}

GemmAlgorithms::Choice GemmAlgorithms::untimed(const GemmRequest& request,
                                               const GemmOperands& operands) {
  if (!options_.without_libraries) {
    const auto first = in_library(request)->algorithms(operands, 1);
    if (!first.empty()) return {.algorithm = first.front()};
  }
  const bool direct = options_.without_libraries ? request.epilogue != GemmEpilogue::row_sums
                                                 : request.epilogue == GemmEpilogue::none;
  return {.algorithm = std::make_shared<LastResort>(*this, request, direct), .settled = true};
}

void GemmAlgorithms::propose(const GemmRequest& request, const GemmOperands& operands,
                             const Pointer& /*present*/, const Search& search) {
  for (const Pointer& candidate : in_library(request)->algorithms(operands, most_candidates)) {
    if (!search.pays(0)) break;
    search.consider(candidate->name(), [&] { return candidate; });
  }
}

void GemmAlgorithms::linear(const LinearGeometry& g, bool tf32, const GemmOperands& o) {
  const bool relu = g.activation.kind == Activation::relu;
  const bool fused = relu || g.activation.kind == Activation::none;
  GemmEpilogue epilogue = GemmEpilogue::none;
  if (fused && o.bias) epilogue = relu ? GemmEpilogue::bias_relu : GemmEpilogue::bias;
  if (!o.bias && relu) epilogue = GemmEpilogue::relu;
  run({.dtype = g.dtype,
       .m = g.rows,
       .n = g.out,
       .k = g.in,
       .transpose_b = true,
       .epilogue = epilogue,
       .tf32 = tf32},
      {.a = o.a, .b = o.b, .y = o.y, .bias = fused ? o.bias : nullptr});
  if (fused) return;
  bias_activation({.rows = g.rows, .channels = g.out, .dtype = g.dtype}, g.activation, o.bias,
                  nullptr, o.y, context_.stream());
}

}  // namespace whisker::cuda
