// The backend's memory beside its allocator: who holds what of the GPU, pinned memory, copies,
// captures.
#include "core/cuda/backend/cuda_backend.h"
#include "core/cuda/runtime/check.h"
#include "core/nvidia/nvml.h"

#include <algorithm>
#include <optional>

#include <unistd.h>

namespace whisker::cuda {
namespace {

// Bytes of other processes; unset where nobody can tell other processes' memory from this one's.
std::optional<int64_t> memory_of_others(const Context& context) {
  const std::string bus_id = context.bus_id();
  std::vector<GpuProcess> processes;
  try {
    processes = Nvml().processes(bus_id);
  } catch (const Error&) {
    return std::nullopt;  // no NVML, or a part of a GPU: counted with the context
  }
  const bool here =
      std::ranges::find(processes, int64_t{getpid()}, &GpuProcess::pid) != processes.end();
  if (!here && processes.size() != 1) return std::nullopt;
  int64_t others = 0;
  for (const GpuProcess& process : processes) {
    if (!here || process.pid == getpid()) continue;
    if (!process.bytes) return std::nullopt;
    others += *process.bytes;
  }
  return others;
}

}  // namespace

// NVML tells whose the rest of the GPU's memory is, as far as it can. Within a container it may
// show the pids of the host; a single process can then only be this one.
MemorySummary CudaBackend::memory_summary() const {
  device_.context.enter();
  MemorySummary summary{.stats = device_.allocator.stats(),
                        .graph_pool = device_.allocator.graph_pool_bytes()};
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for the free memory");
  summary.free = static_cast<int64_t>(free);
  summary.total = static_cast<int64_t>(total);
  const int64_t rest = summary.total - summary.free - summary.stats.reserved;
  summary.others = memory_of_others(device_.context);
  if (summary.others && *summary.others > rest) summary.others.reset();
  summary.context = rest - summary.others.value_or(0);
  return summary;
}

void* CudaBackend::allocate_pinned(int64_t bytes) {
  device_.context.enter();
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, static_cast<size_t>(bytes), cudaHostAllocPortable),
        "allocating pinned memory");
  return memory;
}

void CudaBackend::deallocate_pinned(void* memory, int64_t) {
  device_.context.enter_to_free();  // a thread without a device would start the first one
  cudaFreeHost(memory);
}

void CudaBackend::upload(const void* host, void* device, int64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(device, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice,
                        device_.stream()),
        "copying to the GPU");
  device_.context.synchronize();
}

void CudaBackend::download(const void* device, void* host, int64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost,
                        device_.stream()),
        "copying from the GPU");
  device_.context.synchronize();
}

void CudaBackend::copy(const void* source, void* target, int64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(target, source, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                        device_.stream()),
        "copying on the GPU");
}

void CudaBackend::synchronize() {
  device_.context.enter();
  device_.context.synchronize();
}

// The cache of eager steps is emptied first: the graph takes memory of its own.
std::unique_ptr<CapturedGraph> CudaBackend::capture(const std::function<void()>& work) {
  device_.context.enter();
  device_.allocator.empty_cache();
  return captured(device_.context, device_.allocator, work);
}

}  // namespace whisker::cuda
