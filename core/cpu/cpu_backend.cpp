// The backend's construction and options.
#include "core/backend/attention.h"
#include "core/cpu/backend_class.h"
#include "core/cpu/support/parallel.h"
#include "core/error.h"
#include "core/memory/thread_remedy.h"

#include <latch>
#include <system_error>
#include <thread>
#include <vector>

#if WHISKER_ONEDNN
#include "core/cpu/onednn/conv2d_algorithms.h"
#include "core/cpu/onednn/dnnl_gemm.h"
#endif

namespace whisker::cpu {
namespace {

// libgomp ends the process where it cannot start a thread, and its stack overflows where it is
// asked for a hundred thousand. So the system is asked before, and the team started at once.
int start_threads(int count) {
  constexpr int most = 4096;  // as of runtime.threads
  if (count > most) {
    fail(ErrorKind::usage, "OMP_NUM_THREADS: expected at most {} threads, got {}.", most, count);
  }
  std::latch all_started(1);
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<size_t>(count));
  try {
    for (int i = 1; i < count; ++i) threads.emplace_back([&] { all_started.wait(); });
  } catch (const std::system_error&) {
    all_started.count_down();
    fail(ErrorKind::device, "cpu: {} of {} compute threads could be started. {}",
         threads.size() + 1, count, thread_remedy);
  } catch (...) {  // of memory; the threads wait to be let go
    all_started.count_down();
    throw;
  }
  all_started.count_down();
  threads.clear();
  parallel_ranges(count, 1, [](int64_t, int64_t, int) {});
  return count;
}

}  // namespace

#if WHISKER_ONEDNN
CpuDevice::CpuDevice(Backend& owner)
    : backend(owner),
      conv2d_algorithms(std::make_unique<Conv2dAlgorithms>(allocator, options)),
      gemm_algorithms(std::make_unique<GemmAlgorithms>()) {}
#else
CpuDevice::CpuDevice(Backend& owner) : backend(owner) {}
#endif
CpuDevice::~CpuDevice() = default;

CpuBackend::CpuBackend()
    : HostDevice(families_),
      default_threads_(start_threads(most_threads())),
      families_{.elementwise = make_elementwise(device_),
                .shape_index = make_shape_index(device_),
                .reduction = make_reduction(device_),
                .gemm = make_gemm(device_),
                .convolution = make_convolution(device_),
                .pooling = make_pooling(device_),
                .normalization = make_normalization(device_),
                .recurrent = make_recurrent(device_),
                .losses = make_losses(device_),
                .training_step = make_training_step(device_),
                .attention = make_attention(device_)} {}

void refuse_dtype(DType expected, DType got) {
  fail(ErrorKind::internal, "cpu: a kernel of {} was handed {}.", expected, got);
}

void CpuBackend::set_options(const CpuOptions& options) {
  if (options == device_.options) return;
  device_.options = options;
#ifdef _OPENMP
  omp_set_num_threads(options.threads > 0 ? options.threads : default_threads_);
  if (options.threads > default_threads_) start_threads(options.threads);
#endif
#if WHISKER_ONEDNN
  device_.conv2d_algorithms->clear();
  device_.gemm_algorithms->clear();
#endif
}

void CpuBackend::set_memory_options(const MemoryOptions& options) {
  device_.allocator.books().set_options(options);
#if WHISKER_ONEDNN
  device_.conv2d_algorithms->try_again();
#endif
}

#if WHISKER_ONEDNN
std::string CpuBackend::export_algorithms() const {
  return device_.conv2d_algorithms->table().text();
}

void CpuBackend::import_algorithms(std::string_view text) {
  const CpuOptions& options = device_.options;
  if (options.winograd && !options.deterministic) device_.conv2d_algorithms->add_to_table(text);
}
#else
std::string CpuBackend::export_algorithms() const {
  return "";
}

void CpuBackend::import_algorithms(std::string_view) {}  // there is but one algorithm
#endif

}  // namespace whisker::cpu

namespace whisker {
namespace {

cpu::CpuBackend& registered() {
  return static_cast<cpu::CpuBackend&>(backend_of(cpu_device));
}

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() {
  return std::make_unique<cpu::CpuBackend>();
}

CpuOptions cpu_options() {
  return registered().options();
}
void set_cpu_options(const CpuOptions& options) {
  registered().set_options(options);
}

}  // namespace whisker
