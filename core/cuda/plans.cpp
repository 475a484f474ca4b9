// The choices as a whole: options, import and export.
#include "core/cuda/plans.h"

#include "core/cuda/cublas_lt.h"
#include "core/cuda/cuda_backend.h"

namespace whisker::cuda {
namespace {

PlanEnvironment environment_of(const Context& context) {
  return {.cudnn = static_cast<int64_t>(cudnnGetVersion()),
          .cublas_lt = static_cast<int64_t>(cublas_lt().get_version()),
          .device = context.properties().name};
}

}  // namespace

Plans::Plans(Context& context, Allocator& allocator, const CudaOptions& options)
    : table_([&context] { return environment_of(context); }),
      convolutions_(context, allocator, options, budget_, table_),
      products_(context, allocator, options, budget_, table_),
      recurrent_(context, allocator, options, budget_, table_) {
  budget_.set_limit(options.search_seconds);
  budget_.set_uses(options.search_uses);
}

void Plans::import(std::string_view text) {
  table_.add(text);
  convolutions_.clear();
  products_.clear();
  recurrent_.clear();
}

void Plans::options_changed(const CudaOptions& options, bool forget) {
  budget_.set_limit(options.search_seconds);
  budget_.set_uses(options.search_uses);
  if (!forget) return;
  table_.clear();
  convolutions_.clear();
  products_.clear();
  recurrent_.clear();
}

std::string CudaBackend::export_plans() const {
  return plans_.table().text();
}

void CudaBackend::import_plans(std::string_view text) {
  context_.enter();
  plans_.import(text);
}

}  // namespace whisker::cuda
