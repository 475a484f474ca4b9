// The backend's memory methods: the allocator's face, pinned memory, copies, captures.
#include "core/cuda/backend/cuda_backend.h"
#include "core/cuda/memory/capture.h"
#include "core/cuda/runtime/check.h"
#include "core/nvidia/nvml.h"

#include <algorithm>
#include <optional>

#include <unistd.h>

namespace whisker::cuda {
namespace {

// Unset where nobody can tell other processes' memory from this one's.
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

void* CudaBackend::allocate(int64_t bytes, MemoryCategory category) {
  return allocator_.allocate(bytes, category);
}
void CudaBackend::deallocate(void* memory, int64_t bytes, MemoryCategory category) {
  allocator_.deallocate(memory, bytes, category);
}
MemoryStats CudaBackend::memory_stats() const {
  return allocator_.stats();
}

// What of the GPU belongs to whom, as far as NVML tells. Within a container it may show the pids of
// the host; a single process can then only be this one.
MemorySummary CudaBackend::memory_summary() const {
  context_.enter();
  MemorySummary summary{.stats = allocator_.stats(), .graph_pool = allocator_.graph_pool_bytes()};
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for the free memory");
  summary.free = static_cast<int64_t>(free);
  summary.total = static_cast<int64_t>(total);
  const int64_t rest = summary.total - summary.free - summary.stats.reserved;
  summary.others = memory_of_others(context_);
  if (summary.others && *summary.others > rest) summary.others.reset();
  summary.context = rest - summary.others.value_or(0);
  return summary;
}

void CudaBackend::reset_peak() {
  allocator_.reset_peak();
}
void CudaBackend::set_memory_options(const MemoryOptions& options) {
  allocator_.set_options(options);
}
void CudaBackend::empty_cache() {
  allocator_.empty_cache();
}

void* CudaBackend::allocate_pinned(int64_t bytes) {
  context_.enter();
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, static_cast<size_t>(bytes), cudaHostAllocPortable),
        "allocating pinned memory");
  return memory;
}

void CudaBackend::deallocate_pinned(void* memory, int64_t) {
  context_.enter_to_free();  // a thread without a device would start the first one
  cudaFreeHost(memory);
}

void CudaBackend::upload(const void* host, void* device, int64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(device, host, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream()),
        "copying to the GPU");
  context_.synchronize();
}

void CudaBackend::download(const void* device, void* host, int64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(host, device, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream()),
        "copying from the GPU");
  context_.synchronize();
}

void CudaBackend::copy(const void* source, void* target, int64_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(target, source, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                        stream()),
        "copying on the GPU");
}

void CudaBackend::enqueue_upload(const void* host, void* device, int64_t bytes) {
  staging_.upload(host, device, bytes);
}

void CudaBackend::synchronize() {
  context_.enter();
  context_.synchronize();
}

// What eager steps left in the cache goes back first: the graph takes memory of its own.
std::unique_ptr<CapturedGraph> CudaBackend::capture(const std::function<void()>& work) {
  context_.enter();
  allocator_.empty_cache();
  return captured(context_, allocator_, work);
}

}  // namespace whisker::cuda
