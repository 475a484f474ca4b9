#include "core/cuda/gemm/gemm_algorithms.h"

#include "core/cuda/autotune/driver_memory.h"
#include "core/cuda/autotune/stopwatch.h"
#include "core/cuda/runtime/add_time.h"
#include "core/error.h"

#include <algorithm>

namespace whisker::cuda {
namespace {

constexpr int most_candidates = 16;
// The most that cuBLASLt's Hopper kernels ask for.
constexpr int64_t workspace_limit = int64_t{32} << 20;

uint8_t alignment(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  uint8_t bytes = 16;
  while (address % bytes != 0) bytes = static_cast<uint8_t>(bytes / 2);
  return bytes;
}

}  // namespace

GemmAlgorithms::Choice GemmAlgorithms::decide(const GemmRequest& request,
                                              const GemmOperands& operands) {
  Choice choice{.gemm = std::make_unique<CublasLtGemm>(request), .algorithm = {}, .settled = true};
  const cublasLtHandle_t handle = context_.cublas_lt();
  if (const auto known = table_.find(gemm_rows, request.describe())) {
    if (const auto algorithm = GemmAlgorithm::parse(*known)) {
      choice.algorithm = choice.gemm->accept(handle, *algorithm, operands);
    }
  }
  const bool fits =
      choice.algorithm &&
      (options_.deterministic || can_allocate(allocator_, choice.algorithm->workspace_bytes));
  if (fits) return choice;
  const auto first = choice.gemm->algorithms(handle, operands, workspace_limit, 1);
  choice.algorithm.reset();
  if (!first.empty()) choice.algorithm = first.front();
  choice.settled = first.empty();
  return choice;
}

void GemmAlgorithms::settle(const GemmRequest& request, const GemmOperands& operands,
                            Choice& choice) {
  choice.settled = true;
  const SearchBudget::Use use(budget_);
  Stopwatch stopwatch(context_, allocator_);
  CublasLtGemm& gemm = *choice.gemm;
  GemmAlgorithm best = *choice.algorithm;
  float best_time = std::numeric_limits<float>::infinity();
  for (const GemmAlgorithm& candidate :
       gemm.algorithms(context_.cublas_lt(), operands, workspace_limit, most_candidates)) {
    if (use.seconds() > budget_.worth(best_time)) break;
    const DriverMemory workspace(allocator_, candidate.workspace_bytes);
    const float time = stopwatch.median(
        [&] {
          gemm.run(context_.cublas_lt(), context_.stream(), candidate, operands, workspace.data());
        },
        best_time);
    if (time < best_time) {
      best_time = time;
      best = candidate;
    }
  }
  // Timing used memory outside the allocator, which may have a lower limit.
  { const Scratch probe(allocator_, best.workspace_bytes); }
  choice.algorithm = best;
  table_.set(gemm_rows, request.describe(), choice.algorithm->text());
}

bool GemmAlgorithms::run(GemmRequest request, const GemmOperands& operands) {
  request.a_alignment = alignment(operands.a);
  request.b_alignment = alignment(operands.b);
  request.y_alignment = alignment(operands.y);
  request.bias_alignment = alignment(operands.bias);
  if (options_.without_libraries) {
    if (request.epilogue == GemmEpilogue::row_sums) return false;
    direct_gemm(request, operands, context_.stream());
    return true;
  }
  auto found = choices_.find(request);
  if (found == choices_.end()) {
    const AddTime timer(context_.start_times().plans);
    found = choices_.emplace(request, decide(request, operands)).first;
  } else if (!found->second.settled && budget_.may_search(context_.stream())) {
    try {
      settle(request, operands, found->second);
    } catch (const OutOfMemory&) {
      // Untimed in this run: see Note [Choosing a convolution].
    }
  }
  Choice& choice = found->second;
  if (!choice.algorithm) {
    if (request.epilogue != GemmEpilogue::none) return false;
    direct_gemm(request, operands, context_.stream());
    return true;
  }
  const Scratch workspace(allocator_, choice.algorithm->workspace_bytes);
  choice.gemm->run(context_.cublas_lt(), context_.stream(), *choice.algorithm, operands,
                   workspace.data());
  return true;
}

}  // namespace whisker::cuda
