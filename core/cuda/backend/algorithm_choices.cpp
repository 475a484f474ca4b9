// The choices as a whole: options, import and export.
#include "core/cuda/backend/algorithm_choices.h"

#include "core/cuda/backend/cuda_backend.h"
#include "core/cuda/runtime/cublas_lt.h"

namespace whisker::cuda {
namespace {

AutotuneTable::Environment environment_of(const Context& context) {
  return {{"cudnn", static_cast<int64_t>(cudnnGetVersion())},
          {"cublas_lt", static_cast<int64_t>(cublas_lt().get_version())},
          {"kernels", own_kernels},
          {"device", std::string(context.properties().name)}};
}

}  // namespace

AlgorithmChoices::AlgorithmChoices(Context& context, Allocator& allocator,
                                   const CudaOptions& options)
    : table_({convolution_rows, gemm_rows, recurrent_rows},
             [&context] { return environment_of(context); }),
      convolutions_({context, allocator, options, budget_, table_}, convolution_rows),
      gemms_({context, allocator, options, budget_, table_}, gemm_rows),
      recurrent_(context, allocator, options, budget_, table_),
      recurrent_choice_(context, allocator, options, budget_, table_) {
  budget_.set_limit(options.search_seconds);
  budget_.set_uses(options.search_uses);
}

// What the table holds is found there again.
void AlgorithmChoices::forget() {
  convolutions_.clear();
  gemms_.clear();
  recurrent_.clear();
  recurrent_choice_.clear();
}

void AlgorithmChoices::import(std::string_view text) {
  table_.add(text);
  forget();
}

void AlgorithmChoices::options_changed(const CudaOptions& options, bool forget_table) {
  // Recurrent layers keep to their choice; what nobody timed is chosen again once there is time.
  // Nothing of theirs is kept between steps.
  if (options.search_seconds > budget_.limit()) {
    recurrent_.clear();
    recurrent_choice_.clear();
  }
  budget_.set_limit(options.search_seconds);
  budget_.set_uses(options.search_uses);
  if (!forget_table) return;
  table_.clear();
  forget();
}

std::string CudaBackend::export_algorithms() const {
  return device_.algorithms->table().text();
}

void CudaBackend::import_algorithms(std::string_view text) {
  device_.context.enter();
  device_.algorithms->import(text);
}

}  // namespace whisker::cuda
