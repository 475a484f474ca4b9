// The backend's construction and options.
#include "core/cpu/cpu_backend.h"

#include "core/cpu/bf16.h"

#if WHISKER_ONEDNN
#include "core/cpu/conv2d_plans.h"
#endif

namespace whisker::cpu {

#if WHISKER_ONEDNN
CpuBackend::CpuBackend() : plans_(std::make_unique<Conv2dPlans>()) {}
#else
CpuBackend::CpuBackend() = default;
#endif
CpuBackend::~CpuBackend() = default;

void CpuBackend::set_options(const CpuOptions& options) {
  options_ = options;
#if WHISKER_ONEDNN
  plans_->clear();
#endif
}

}  // namespace whisker::cpu

namespace whisker {
namespace {

cpu::CpuBackend& registered() {
  return static_cast<cpu::CpuBackend&>(backend_of(cpu_device));
}

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() {
  return std::make_unique<cpu::Bf16Backend>();
}

CpuOptions cpu_options() {
  return registered().options();
}
void set_cpu_options(const CpuOptions& options) {
  registered().set_options(options);
}

}  // namespace whisker
