// The backend's construction and options.
#include "core/cpu/cpu_backend.h"

#include "core/cpu/bf16.h"
#include "core/cpu/parallel.h"

#if WHISKER_ONEDNN
#include "core/cpu/conv2d_plans.h"
#include "core/cpu/product_plans.h"
#endif

namespace whisker::cpu {

#if WHISKER_ONEDNN
CpuBackend::CpuBackend()
    : default_threads_(most_threads()),
      plans_(std::make_unique<Conv2dPlans>()),
      products_(std::make_unique<ProductPlans>()) {}
#else
CpuBackend::CpuBackend() : default_threads_(most_threads()) {}
#endif
CpuBackend::~CpuBackend() = default;

void CpuBackend::set_options(const CpuOptions& options) {
  if (options == options_) return;
  options_ = options;
#ifdef _OPENMP
  omp_set_num_threads(options.threads > 0 ? options.threads : default_threads_);
#endif
#if WHISKER_ONEDNN
  plans_->clear();
  products_->clear();
#endif
}

void CpuBackend::set_memory_options(const MemoryOptions& options) {
  allocator_.books().set_options(options);
#if WHISKER_ONEDNN
  plans_->try_again();
#endif
}

#if WHISKER_ONEDNN
std::string CpuBackend::export_plans() const {
  return plans_->table().text();
}

void CpuBackend::import_plans(std::string_view text) {
  if (options_.winograd && !options_.deterministic) plans_->add_to_table(text);
}
#else
std::string CpuBackend::export_plans() const {
  return "";
}

void CpuBackend::import_plans(std::string_view) {}  // there is but one algorithm
#endif

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
