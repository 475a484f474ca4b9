// What a class that chooses algorithms by timing works with.
#pragma once

#include "core/backend/autotune_table.h"
#include "core/cuda/autotune/search_budget.h"
#include "core/cuda/memory/allocator.h"
#include "core/nvidia/cuda_library.h"

namespace whisker::cuda {

/// Version of Whisker's kernels and of the table's words: raise it when a kernel is added or
/// becomes faster, or a word changes, so that earlier choices are timed again.
inline constexpr int64_t own_kernels = 6;

/// Kinds of requests in the table; stored ones call gemms products.
inline constexpr const char *convolution_rows = "convolutions", *gemm_rows = "products",
                            *recurrent_rows = "recurrent";

class Autotuned {
 public:
  Autotuned(Context& context, Allocator& allocator, const CudaOptions& options,
            SearchBudget& budget, AutotuneTable& table)
      : context_(context),
        allocator_(allocator),
        options_(options),
        budget_(budget),
        table_(table) {}

 protected:
  bool tf32() const { return options_.tf32 && !options_.deterministic; }

  Context& context_;
  Allocator& allocator_;
  const CudaOptions& options_;
  SearchBudget& budget_;
  AutotuneTable& table_;
};

}  // namespace whisker::cuda
