// Captured work: a CUDA graph, recorded from the compute stream and launched into it.
#include "core/backend/backend.h"
#include "core/cuda/memory/allocator.h"
#include "core/cuda/runtime/check.h"

#include <memory>
#include <type_traits>

namespace whisker::cuda {
namespace {

class Graph final : public CapturedGraph {
 public:
  /// The calling thread's work goes into this graph while `work` runs.
  Graph(Context& context, Allocator& allocator, const std::function<void()>& work)
      : context_(context), memory_(allocator) {
    cudaGraph_t recorded = nullptr;
    memory_.capture([&] { recorded = record(work); });
    cudaGraphExec_t made = nullptr;
    const cudaError_t error = cudaGraphInstantiate(&made, recorded, 0);
    executable_.reset(made);
    cudaGraphDestroy(recorded);
    check(error, "making an executable of the captured work (runtime.graph=false does without)");
    check(cudaGraphUpload(made, context_.stream()), "uploading the captured work");
  }

  void replay() override {
    context_.enter();
    check(cudaGraphLaunch(executable_.get(), context_.stream()), "replaying the captured work");
  }

 private:
  // Thread-local: other threads (the loader's) may call CUDA meanwhile.
  cudaGraph_t record(const std::function<void()>& work) {
    check(cudaStreamBeginCapture(context_.stream(), cudaStreamCaptureModeThreadLocal),
          "beginning a capture");
    cudaGraph_t recorded = nullptr;
    try {
      work();
    } catch (...) {
      cudaStreamEndCapture(context_.stream(), &recorded);
      if (recorded) cudaGraphDestroy(recorded);
      cudaGetLastError();  // clears the error of the broken capture
      throw;
    }
    check(cudaStreamEndCapture(context_.stream(), &recorded), "ending a capture");
    return recorded;
  }

  Context& context_;
  Allocator::GraphMemory memory_;
  struct Destroy {
    void operator()(cudaGraphExec_t executable) const { cudaGraphExecDestroy(executable); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy> executable_;
};

}  // namespace

std::unique_ptr<CapturedGraph> captured(Context& context, Allocator& allocator,
                                        const std::function<void()>& work) {
  return std::make_unique<Graph>(context, allocator, work);
}

}  // namespace whisker::cuda
