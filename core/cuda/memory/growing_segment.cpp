// Chunks of at most 32 MiB, so that a segment keeps little free memory at its end.
#include "core/cuda/memory/growing_segment.h"

#include "core/cuda/runtime/check.h"
#include "core/cuda/runtime/libraries.h"
#include "core/error.h"

#include <algorithm>

#include <cuda.h>
#include <cudaTypedefs.h>

namespace whisker::cuda {
namespace {

constexpr int64_t largest_piece = int64_t{32} << 20;

/// The driver's functions, found at run time: the library is not linked with the driver.
struct Driver {
  bool complete = true;
  PFN_cuDeviceGetAttribute_v2000 device_attribute = find("cuDeviceGetAttribute", 2000);
  PFN_cuMemGetAllocationGranularity_v10020 granularity = find("cuMemGetAllocationGranularity");
  PFN_cuMemAddressReserve_v10020 reserve = find("cuMemAddressReserve");
  PFN_cuMemAddressFree_v10020 release_addresses = find("cuMemAddressFree");
  PFN_cuMemCreate_v10020 create = find("cuMemCreate");
  PFN_cuMemRelease_v10020 release = find("cuMemRelease");
  PFN_cuMemMap_v10020 map = find("cuMemMap");
  PFN_cuMemUnmap_v10020 unmap = find("cuMemUnmap");
  PFN_cuMemSetAccess_v10020 set_access = find("cuMemSetAccess");

 private:
  FoundFunction find(const char* name, unsigned version = 10020) {
    FoundFunction found;
    cudaDriverEntryPointQueryResult result{};
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, &found.address, version, cudaEnableDefault, &result);
    complete = complete && error == cudaSuccess && result == cudaDriverEntryPointSuccess;
    return found;
  }
};

const Driver& driver() {
  static const Driver functions;
  return functions;
}

CUmemAllocationProp memory_of(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
  return properties;
}

}  // namespace

std::unique_ptr<GrowingSegment> GrowingSegment::on(int device) {
  if (!driver().complete) return nullptr;
  int can_map = 0;
  driver().device_attribute(&can_map, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                            device);
  if (!can_map) return nullptr;
  const CUmemAllocationProp properties = memory_of(device);
  size_t step = 0, free = 0, total = 0;
  if (driver().granularity(&step, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) !=
          CUDA_SUCCESS ||
      step == 0) {
    return nullptr;
  }
  check(cudaMemGetInfo(&free, &total), "asking for the GPU's memory");
  const size_t most = (total + step - 1) / step * step;
  CUdeviceptr begin = 0;
  if (driver().reserve(&begin, most, 0, 0, 0) != CUDA_SUCCESS) return nullptr;
  std::unique_ptr<GrowingSegment> segment(
      new GrowingSegment(device, begin, static_cast<int64_t>(most), static_cast<int64_t>(step)));
  // The driver may still refuse.
  try {
    if (segment->grow(segment->step_)) segment->unmap_last();
  } catch (const Error&) {
    return nullptr;
  }
  return segment;
}

GrowingSegment::~GrowingSegment() {
  cudaDeviceSynchronize();  // a lost GPU has no work either
  while (!chunks_.empty()) unmap_last();
  driver().release_addresses(begin_, static_cast<size_t>(most_));
}

bool GrowingSegment::grow(int64_t bytes) {
  const int64_t before = bytes_, wanted = rounded(bytes);
  if (wanted > most_ - bytes_) return false;
  const auto undo = [&] {
    while (bytes_ > before) unmap_last();
  };
  try {
    while (bytes_ < before + wanted) {
      chunks_.reserve(chunks_.size() + 1);
      const int64_t piece = std::min(before + wanted - bytes_, rounded(largest_piece));
      if (map_chunk(piece)) continue;
      undo();
      return false;
    }
  } catch (...) {
    undo();
    throw;
  }
  return true;
}

bool GrowingSegment::map_chunk(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  const CUmemAllocationProp properties = memory_of(device_);
  const CUdeviceptr at = begin_ + static_cast<uint64_t>(bytes_);
  CUmemGenericAllocationHandle handle = 0;
  CUresult error = driver().create(&handle, size, &properties, 0);
  if (error == CUDA_ERROR_OUT_OF_MEMORY) return false;
  if (error == CUDA_SUCCESS) {
    error = driver().map(at, size, 0, handle, 0);
    if (error == CUDA_SUCCESS) {
      const CUmemAccessDesc access{.location = properties.location,
                                   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
      error = driver().set_access(at, size, &access, 1);
      if (error != CUDA_SUCCESS) driver().unmap(at, size);
    }
    if (error != CUDA_SUCCESS) driver().release(handle);
  }
  if (error == CUDA_ERROR_OUT_OF_MEMORY) return false;
  if (error != CUDA_SUCCESS) {
    fail(ErrorKind::device, "cuda:{}: mapping {} bytes of device memory: error {} of the driver.",
         device_, bytes, static_cast<int>(error));
  }
  chunks_.push_back({.handle = handle, .bytes = bytes});
  bytes_ += bytes;
  return true;
}

void GrowingSegment::unmap_last() {
  const Chunk chunk = chunks_.back();
  chunks_.pop_back();
  bytes_ -= chunk.bytes;
  driver().unmap(begin_ + static_cast<uint64_t>(bytes_), static_cast<size_t>(chunk.bytes));
  driver().release(chunk.handle);
}

void GrowingSegment::shrink(const char* first) {
  if (chunks_.empty() || end() - chunks_.back().bytes < first) return;
  // What cudaFree does by itself.
  check(cudaDeviceSynchronize(), "waiting before device memory is given back");
  while (!chunks_.empty() && end() - chunks_.back().bytes >= first) unmap_last();
}

}  // namespace whisker::cuda
