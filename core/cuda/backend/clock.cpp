// Marks in the compute stream: one timed event each.
#include "core/cuda/backend/cuda_backend.h"
#include "core/cuda/runtime/check.h"

#include <vector>

namespace whisker::cuda {
namespace {

class Clock final : public DeviceClock {
 public:
  explicit Clock(Context& context) : context_(context) {}
  ~Clock() override {
    for (const cudaEvent_t event : marks_) cudaEventDestroy(event);
  }
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  int64_t mark() override {
    context_.enter();
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "making an event");
    marks_.push_back(event);
    check(cudaEventRecord(event, context_.stream()), "recording an event");
    return static_cast<int64_t>(marks_.size()) - 1;
  }

  std::vector<double> read() override {
    context_.enter();
    context_.synchronize();
    std::vector<double> times;
    for (const cudaEvent_t event : marks_) {
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, marks_.front(), event), "reading a time");
      times.push_back(milliseconds);
    }
    return times;
  }

 private:
  Context& context_;
  std::vector<cudaEvent_t> marks_;
};

}  // namespace

std::unique_ptr<DeviceClock> CudaBackend::make_clock() {
  return std::make_unique<Clock>(device_.context);
}

}  // namespace whisker::cuda
