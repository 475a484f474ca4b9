// The CPU backend: memory, options and timed choices; its kernels are made by cpu_kernels.h.
#include "core/cpu/cpu_backend.h"

#include "core/backend/attention.h"
#include "core/backend/host_device.h"
#include "core/cpu/cpu_kernels.h"
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

void refuse_dtype(DType expected, DType got) {
  fail(ErrorKind::internal, "cpu: a kernel of {} was handed {}.", expected, got);
}

class CpuBackend final : public HostDevice {
 public:
  CpuBackend()
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

  const CpuOptions& options() const { return device_.options; }
  void set_options(const CpuOptions& options) {
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

  std::vector<BackendProperty> properties() const override {
    return cpu_properties();
  }
#if WHISKER_ONEDNN
  std::string export_algorithms() const override {
    return device_.conv2d_algorithms->table().text();
  }
  void import_algorithms(std::string_view text) override {
    const CpuOptions& options = device_.options;
    if (options.winograd && !options.deterministic) device_.conv2d_algorithms->add_to_table(text);
  }
#endif
  void* allocate(int64_t bytes, MemoryCategory category) override {
    return device_.allocator.allocate(bytes, category);
  }
  void deallocate(void* memory, int64_t bytes, MemoryCategory category) override {
    device_.allocator.deallocate(memory, bytes, category);
  }
  MemoryStats memory_stats() const override {
    return device_.allocator.books().stats();
  }
  void reset_peak() override {
    device_.allocator.books().reset_peak();
  }
  void set_memory_options(const MemoryOptions& options) override {
    device_.allocator.books().set_options(options);
#if WHISKER_ONEDNN
    device_.conv2d_algorithms->try_again();
#endif
  }
  void empty_cache() override {
    device_.allocator.empty_cache();
  }

 private:
  int default_threads_;
  CpuDevice device_{*this};
  KernelFamilies families_;
};

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
