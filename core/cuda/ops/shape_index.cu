// Strided copies, and selection by index. One thread per element of the result; sums run in the
// order of the indices, so results are deterministic.
#include "core/cuda/device_code/elementwise.cuh"
#include "core/cuda/ops/fault.cuh"
#include "core/cuda/ops/shape_index.h"
#include "core/cuda/ops/walk.cuh"

namespace whisker::cuda::kernels {
namespace {

struct Offsets {
  int64_t source, target;
};
template <class Index>
__device__ Offsets offsets_of(const CopyGeometry& g, const Divisors<Index>& by, int64_t element) {
  Offsets at{g.source_offset, g.target_offset};
  visit_coordinates(g.rank, by, static_cast<Index>(element), [&](int axis, Index coordinate) {
    at.source += static_cast<int64_t>(coordinate) * g.source_stride[axis];
    at.target += static_cast<int64_t>(coordinate) * g.target_stride[axis];
  });
  return at;
}

template <class T, class Index>
__global__ void __launch_bounds__(block_threads)
    copy_kernel(CopyGeometry g, const __grid_constant__ Divisors<Index> by, int64_t count,
                const T* x, T* y) {
  for (int64_t i = first_item(); i < count; i += item_step()) {
    const Offsets at = offsets_of(g, by, i);
    y[at.target] = x[at.source];
  }
}

template <class T, class Index>
__global__ void __launch_bounds__(block_threads)
    add_kernel(CopyGeometry g, const __grid_constant__ Divisors<Index> by, int64_t count,
               const T* x, T* y) {
  for (int64_t i = first_item(); i < count; i += item_step()) {
    const Offsets at = offsets_of(g, by, i);
    y[at.target] = from_f32<T>(to_f32(y[at.target]) + to_f32(x[at.source]));
  }
}

int64_t steps_of(const CopyGeometry& g) {
  int64_t count = 1;
  for (int axis = 0; axis < g.rank; ++axis) count *= g.extent[static_cast<size_t>(axis)];
  return count;
}

// Merges pairs of adjacent elements into elements of twice the size; false where they are not
// pairs.
bool pair_up(CopyGeometry& g, size_t element_bytes, const void* x, const void* y) {
  if (g.rank == 0) return false;
  const auto last = static_cast<size_t>(g.rank - 1);
  const auto address = reinterpret_cast<uintptr_t>(x) | reinterpret_cast<uintptr_t>(y);
  int64_t odd = g.extent[last] | g.source_offset | g.target_offset;
  for (size_t axis = 0; axis < last; ++axis) odd |= g.source_stride[axis] | g.target_stride[axis];
  if (g.source_stride[last] != 1 || g.target_stride[last] != 1 || odd % 2 != 0 ||
      address % (2 * element_bytes) != 0) {
    return false;
  }
  g.extent[last] /= 2;
  g.source_offset /= 2;
  g.target_offset /= 2;
  for (size_t axis = 0; axis < last; ++axis) {
    g.source_stride[axis] /= 2;
    g.target_stride[axis] /= 2;
  }
  return true;
}

// Calls fn.operator()<U>() with the unsigned type of `bytes`.
template <class Fn>
void visit_bytes(size_t bytes, Fn&& fn) {
  if (bytes == 1) fn.template operator()<uint8_t>();
  if (bytes == 2) fn.template operator()<uint16_t>();
  if (bytes == 4) fn.template operator()<uint32_t>();
  if (bytes == 8) fn.template operator()<uint64_t>();
}

// x (outer, extent, inner), index and y (outer, picks, inner).
template <class T>
__global__ void __launch_bounds__(block_threads)
    gather_kernel(GatherGeometry g, const T* x, const int64_t* index, T* y, Fault* faults) {
  const int64_t count = g.outer * g.picks * g.inner;
  for (int64_t i = first_item(); i < count; i += item_step()) {
    const int64_t o = i / (g.picks * g.inner);
    const int64_t pick = index[i];
    y[i] = in_range(pick, g.extent, faults, FaultSource::gather)
               ? x[(o * g.extent + pick) * g.inner + i % g.inner]
               : T{};
  }
}

// One thread per element of dx loops over the picks of its column.
template <class T>
__global__ void __launch_bounds__(block_threads)
    gather_backward_kernel(GatherGeometry g, const int64_t* index, const T* dy, T* dx) {
  const int64_t count = g.outer * g.extent * g.inner;
  for (int64_t i = first_item(); i < count; i += item_step()) {
    const int64_t o = i / (g.extent * g.inner);
    const int64_t entry = i / g.inner % g.extent;
    float sum = 0;
    for (int64_t p = 0; p < g.picks; ++p) {
      const int64_t pick = (o * g.picks + p) * g.inner + i % g.inner;
      if (index[pick] == entry) sum += to_f32(dy[pick]);
    }
    dx[i] = from_f32<T>(sum);
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    one_hot_kernel(T one, const int64_t* index, int64_t picks, int64_t classes, T* y,
                   Fault* faults) {
  for (int64_t i = first_item(); i < picks * classes; i += item_step()) {
    const int64_t label = index[i / classes];
    y[i] = i % classes == label ? one : T{};
    if (i % classes == 0) in_range(label, classes, faults, FaultSource::one_hot);
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    embedding_kernel(const T* table, int64_t entries, int64_t features, const int64_t* index,
                     int64_t picks, T* y, Fault* faults) {
  for (int64_t i = first_item(); i < picks * features; i += item_step()) {
    const int64_t entry = index[i / features];
    y[i] = in_range(entry, entries, faults, FaultSource::embedding)
               ? table[entry * features + i % features]
               : T{};
  }
}

// One block per pick. The first pick of an entry adds up the rows of all picks of that entry; the
// others return at once. Entries without picks were zeroed before.
template <class T>
__global__ void __launch_bounds__(block_threads)
    embedding_backward_kernel(const int64_t* index, int64_t picks, int64_t entries,
                              int64_t features, const T* dy, T* dtable) {
  const int64_t own = blockIdx.x;
  const int64_t entry = index[own];
  if (entry < 0 || entry >= entries) return;
  bool seen = false;
  for (int64_t p = threadIdx.x; p < own && !seen; p += block_threads) seen = index[p] == entry;
  if (__syncthreads_or(seen)) return;

  constexpr int warps = block_threads / 32;
  __shared__ unsigned matches[warps];  // a bit for each of the next block_threads picks
  for (int64_t feature = 0; feature < features; feature += block_threads) {
    const int64_t f = feature + threadIdx.x;
    float sum = 0;
    for (int64_t first = own; first < picks; first += block_threads) {
      const int64_t p = first + threadIdx.x;
      const unsigned found = __ballot_sync(0xffffffffu, p < picks && index[p] == entry);
      if (threadIdx.x % 32 == 0) matches[threadIdx.x / 32] = found;
      __syncthreads();
      for (int w = 0; w < warps; ++w) {
        for (unsigned left = matches[w]; left != 0; left &= left - 1) {
          const int64_t row = first + w * 32 + __ffs(static_cast<int>(left)) - 1;
          if (f < features) sum += to_f32(dy[row * features + f]);
        }
      }
      __syncthreads();
    }
    if (f < features) dtable[entry * features + f] = from_f32<T>(sum);
  }
}

}  // namespace

void strided_copy(cudaStream_t stream, CopyGeometry g, size_t element_bytes, const void* x,
                  void* y) {
  size_t bytes = element_bytes;
  while (bytes < 16 && pair_up(g, bytes, x, y)) bytes *= 2;
  const int64_t count = steps_of(g);
  if (count == 0) return;
  const auto launch = [&]<class T>() {
    with_index(count, [&]<class Index>() {
      copy_kernel<<<grid_for(count), block_threads, 0, stream>>>(
          g, Divisors<Index>(g.rank, g.extent), count, static_cast<const T*>(x),
          static_cast<T*>(y));
    });
  };
  if (bytes == 16) {
    launch.operator()<uint4>();
  } else {
    visit_bytes(bytes, launch);
  }
  check_launch("strided_copy");
}

void strided_add(cudaStream_t stream, const CopyGeometry& g, DType dtype, const void* x, void* y) {
  const int64_t count = steps_of(g);
  if (count == 0) return;
  visit_real(dtype, [&]<class T>() {
    with_index(count, [&]<class Index>() {
      add_kernel<<<grid_for(count), block_threads, 0, stream>>>(
          g, Divisors<Index>(g.rank, g.extent), count, static_cast<const T*>(x),
          static_cast<T*>(y));
    });
  });
  check_launch("strided_add");
}

void gather(cudaStream_t stream, const GatherGeometry& g, size_t element_bytes, const void* x,
            const int64_t* index, void* y, Fault* faults) {
  const unsigned grid = grid_for(g.outer * g.picks * g.inner);
  visit_bytes(element_bytes, [&]<class T>() {
    gather_kernel<<<grid, block_threads, 0, stream>>>(g, static_cast<const T*>(x), index,
                                                      static_cast<T*>(y), faults);
  });
  check_launch("gather");
}

void gather_backward(cudaStream_t stream, const GatherGeometry& g, DType dtype,
                     const int64_t* index, const void* dy, void* dx) {
  const unsigned grid = grid_for(g.outer * g.extent * g.inner);
  visit_real(dtype, [&]<class T>() {
    gather_backward_kernel<<<grid, block_threads, 0, stream>>>(g, index, static_cast<const T*>(dy),
                                                               static_cast<T*>(dx));
  });
  check_launch("gather_backward");
}

void one_hot(cudaStream_t stream, size_t element_bytes, uint64_t one, const int64_t* index,
             int64_t picks, int64_t classes, void* y, Fault* faults) {
  visit_bytes(element_bytes, [&]<class T>() {
    one_hot_kernel<<<grid_for(picks * classes), block_threads, 0, stream>>>(
        static_cast<T>(one), index, picks, classes, static_cast<T*>(y), faults);
  });
  check_launch("one_hot");
}

// Rows are copied in elements as large as their length and addresses allow.
void embedding(cudaStream_t stream, size_t element_bytes, const void* table, int64_t entries,
               int64_t features, const int64_t* index, int64_t picks, void* y, Fault* faults) {
  const auto address = reinterpret_cast<uintptr_t>(table) | reinterpret_cast<uintptr_t>(y);
  size_t bytes = element_bytes;
  while (bytes < 8 && features % 2 == 0 && address % (2 * bytes) == 0) {
    bytes *= 2;
    features /= 2;
  }
  visit_bytes(bytes, [&]<class T>() {
    embedding_kernel<<<grid_for(picks * features), block_threads, 0, stream>>>(
        static_cast<const T*>(table), entries, features, index, picks, static_cast<T*>(y), faults);
  });
  check_launch("embedding");
}

void embedding_backward(cudaStream_t stream, DType dtype, const int64_t* index, int64_t picks,
                        int64_t entries, int64_t features, const void* dy, void* dtable) {
  visit_real(dtype, [&]<class T>() {
    check(cudaMemsetAsync(dtable, 0, static_cast<size_t>(entries * features) * sizeof(T), stream),
          "embedding_backward");
    embedding_backward_kernel<<<static_cast<unsigned>(picks), block_threads, 0, stream>>>(
        index, picks, entries, features, static_cast<const T*>(dy), static_cast<T*>(dtable));
  });
  check_launch("embedding_backward");
}

}  // namespace whisker::cuda::kernels
