// Who computes recurrent layers: our persistent kernels where they fit and are not slower, else
// cuDNN; within a capture, over sequences of their own lengths, MaskedRecurrent, whose algorithms
// an eager step chooses beforehand, as nothing can be timed there.
#include "core/cuda/cuda_backend.h"
#include "core/cuda/cudnn_recurrent.h"
#include "core/cuda/masked_recurrent.h"
#include "core/cuda/persistent_layers.h"
#include "core/cuda/recurrent_trial.h"
#include "core/cuda/stopwatch.h"

#include <algorithm>

namespace whisker::cuda {

PersistentLayers CudaBackend::persistent_layers() {
  return PersistentLayers(context_, allocator_, plans_.products(), tf32());
}

CudnnRecurrent CudaBackend::cudnn_recurrent() {
  return CudnnRecurrent(context_, allocator_, plans_.recurrent());
}

MaskedRecurrent CudaBackend::masked_recurrent() {
  return MaskedRecurrent(context_, allocator_, plans_.recurrent());
}

// What forward leaves depends on the answer, so it never changes for a geometry.
bool CudaBackend::by_persistent_layers(const RecurrentGeometry& g, bool training) {
  PersistentLayers ours = persistent_layers();
  if (!ours.take(g)) return false;
  RecurrentPlans& plans = plans_.recurrent();
  if (const std::optional<bool> known = plans.ours(g)) return *known;
  bool faster = true;
  // With lengths cuDNN waits for the host: nothing to compare with.
  const bool timed = training && !g.lengths && plans.may_search();
  if (timed) {
    const SearchBudget::Use use(plans.budget());
    Stopwatch stopwatch(context_);
    CudnnRecurrent theirs = cudnn_recurrent();
    const auto time = [&](auto& layers) {
      RecurrentTrial trial(context_, g, layers.reserve_bytes(g));
      return stopwatch.median([&] {
        layers.forward(g, trial.in, trial.out);
        layers.backward(g, trial.in, trial.out, trial.gradients);
      });
    };
    faster = time(ours) <= time(theirs);
  }
  if (training) plans.set_ours(g, faster, timed);
  return faster;
}

int64_t CudaBackend::recurrent_reserve_bytes(const RecurrentGeometry& g) {
  context_.enter();
  if (by_persistent_layers(g, true)) return persistent_layers().reserve_bytes(g);
  if (!g.lengths) return cudnn_recurrent().reserve_bytes(g);
  const int64_t masked = masked_recurrent().reserve_bytes(g);
  return capturing(stream()) ? masked : std::max(masked, cudnn_recurrent().reserve_bytes(g));
}

void CudaBackend::recurrent(const RecurrentGeometry& g, const RecurrentInputs& in,
                            const RecurrentOutputs& out) {
  const cudaStream_t stream = this->stream();
  if (by_persistent_layers(g, out.reserve.defined())) {
    return persistent_layers().forward(g, in, out);
  }
  if (g.lengths && capturing(stream)) return masked_recurrent().forward(g, in, out);
  cudnn_recurrent().forward(g, in, out);
}

void CudaBackend::recurrent_backward(const RecurrentGeometry& g, const RecurrentInputs& in,
                                     const RecurrentOutputs& out,
                                     const RecurrentGradients& gradients) {
  const cudaStream_t stream = this->stream();
  if (by_persistent_layers(g, true)) {
    return persistent_layers().backward(g, in, out, gradients);
  }
  if (g.lengths && capturing(stream)) return masked_recurrent().backward(g, in, out, gradients);
  cudnn_recurrent().backward(g, in, out, gradients);
}

}  // namespace whisker::cuda
