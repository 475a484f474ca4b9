#include "core/cuda/product_plans.h"

#include "core/cuda/product_direct.h"
#include "core/cuda/stopwatch.h"

#include <algorithm>

namespace whisker::cuda {
namespace {

constexpr int most_candidates = 16;
// What cuBLASLt's kernels for this generation ask for at most.
constexpr int64_t workspace_limit = int64_t{32} << 20;

uint8_t alignment(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  uint8_t bytes = 16;
  while (address % bytes != 0) bytes = static_cast<uint8_t>(bytes / 2);
  return bytes;
}

}  // namespace

ProductAlgorithm ProductPlans::fastest(Product& product, std::vector<ProductAlgorithm> candidates,
                                       const ProductOperands& operands) {
  const SearchBudget::Use use(budget_);
  Stopwatch stopwatch(context_, allocator_);
  const ProductAlgorithm* best = nullptr;
  float best_time = std::numeric_limits<float>::infinity();
  for (const ProductAlgorithm& candidate : candidates) {
    const Scratch workspace(allocator_, candidate.workspace_bytes);
    const float time = stopwatch.median(
        [&] {
          product.run(context_.cublas_lt(), context_.stream(), candidate, operands,
                      workspace.data());
        },
        best_time);
    if (!best || time < best_time) {
      best = &candidate;
      best_time = time;
    }
  }
  return *best;
}

ProductPlans::Choice ProductPlans::decide(const ProductRequest& request,
                                          const ProductOperands& operands) {
  Choice choice{.product = std::make_unique<Product>(request), .algorithm = {}, .settled = true};
  Product& product = *choice.product;
  const std::string key = request.describe();
  if (const auto known = table_.find(PlanTable::Kind::product, key)) {
    if (const auto algorithm = ProductAlgorithm::parse(*known)) {
      choice.algorithm = product.accept(context_.cublas_lt(), *algorithm, operands);
      if (choice.algorithm) return choice;
    }
  }
  auto candidates =
      product.algorithms(context_.cublas_lt(), operands, workspace_limit, most_candidates);
  if (candidates.empty()) return choice;
  choice.settled = budget_.may_search(context_.stream());
  if (choice.settled) {
    choice.algorithm = fastest(product, std::move(candidates), operands);
    table_.set(PlanTable::Kind::product, key, choice.algorithm->text());
  } else {
    choice.algorithm = candidates.front();
  }
  return choice;
}

bool ProductPlans::run(ProductRequest request, const ProductOperands& operands) {
  request.a_alignment = alignment(operands.a);
  request.b_alignment = alignment(operands.b);
  request.y_alignment = alignment(operands.y);
  request.bias_alignment = alignment(operands.bias);
  auto found = choices_.find(request);
  if (found == choices_.end() ||
      (!found->second.settled && budget_.may_search(context_.stream()))) {
    found = choices_.insert_or_assign(request, decide(request, operands)).first;
  }
  Choice& choice = found->second;
  if (!choice.algorithm) {
    if (request.epilogue != ProductEpilogue::none) return false;
    direct_product(request, operands, context_.stream());
    return true;
  }
  const Scratch workspace(allocator_, choice.algorithm->workspace_bytes);
  choice.product->run(context_.cublas_lt(), context_.stream(), *choice.algorithm, operands,
                      workspace.data());
  return true;
}

}  // namespace whisker::cuda
