// Strided copies, and selection by index. One thread per element of the result; sums run in the
// order of the indices, so results are deterministic.
#include "core/backend/shape_index.h"
#include "core/cuda/device_code/elementwise.cuh"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/memory/cuda_device.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/ops/walk.cuh"
#include "core/cuda/runtime/fault.h"

namespace whisker::cuda {
namespace {

// Copies, or adds to y.
template <bool adds, class T, class Index>
__global__ void __launch_bounds__(block_threads)
    copy_kernel(CopyGeometry g, const __grid_constant__ Divisors<Index> by, int64_t count,
                const T* x, T* y) {
  for (int64_t i = first_item(); i < count; i += item_step()) {
    const Offsets at = offsets_of<int64_t>(g.rank, by, i, g.source_stride, g.target_stride);
    const T& from = x[at.a + g.source_offset];
    T& to = y[at.b + g.target_offset];
    if constexpr (adds) {
      to = from_f32<T>(to_f32(to) + to_f32(from));
    } else {
      to = from;
    }
  }
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

// x (outer, extent, inner), index and y (outer, picks, inner); of rows, an embedding's, outer is 1
// and index (picks). A pick outside the extent is reported as a fault; the result is 0 there.
template <class T, bool rows>
struct Gather {
  GatherGeometry g;
  const T* x;
  const int64_t* index;
  T* y;
  Fault* faults;
  __device__ void operator()(int64_t i) const {
    const int64_t o = rows ? 0 : i / (g.picks * g.inner);
    const int64_t pick = index[rows ? i / g.inner : i];
    y[i] = in_range(pick, g.extent, faults, rows ? FaultSource::embedding : FaultSource::gather)
               ? x[(o * g.extent + pick) * g.inner + i % g.inner]
               : T{};
  }
};

// An element of dx loops over the picks of its column.
template <class T>
struct GatherBackward {
  GatherGeometry g;
  const int64_t* index;
  const T* dy;
  T* dx;
  __device__ void operator()(int64_t i) const {
    const int64_t o = i / (g.extent * g.inner);
    const int64_t entry = i / g.inner % g.extent;
    float sum = 0;
    for (int64_t p = 0; p < g.picks; ++p) {
      const int64_t pick = (o * g.picks + p) * g.inner + i % g.inner;
      if (index[pick] == entry) sum += to_f32(dy[pick]);
    }
    dx[i] = from_f32<T>(sum);
  }
};

template <class T>
struct OneHot {
  T one;
  const int64_t* index;
  int64_t classes;
  T* y;
  Fault* faults;
  __device__ void operator()(int64_t i) const {
    const int64_t label = index[i / classes];
    y[i] = i % classes == label ? one : T{};
    if (i % classes == 0) in_range(label, classes, faults, FaultSource::one_hot);
  }
};

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

class ShapeIndex final : public ShapeIndexKernels, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  void strided_copy(const CopyGeometry& g, bool add, const Tensor& x, const Tensor& y) override {
    CopyGeometry walk = g;
    size_t bytes = size_of(y.dtype());
    while (!add && bytes < 16 && pair_up(walk, bytes, x.raw(), y.raw())) bytes *= 2;
    int64_t count = 1;
    for (int axis = 0; axis < walk.rank; ++axis) count *= walk.extent[static_cast<size_t>(axis)];
    if (count == 0) return;
    const auto launch = [&]<bool adds, class T>() {
      with_index(count, [&]<class Index>() {
        launch_kernel(stream(), "strided_copy", grid_for(count), copy_kernel<adds, T, Index>, walk,
                      Divisors<Index>(walk.rank, walk.extent), count, x, y);
      });
    };
    if (add) {
      visit_real(y.dtype(), [&]<class T>() { launch.template operator()<true, T>(); });
    } else if (bytes == 16) {
      launch.operator()<false, uint4>();
    } else {
      visit_bytes(bytes, [&]<class T>() { launch.template operator()<false, T>(); });
    }
  }

  void gather(const GatherGeometry& g, const Tensor& x, const Tensor& index,
              const Tensor& y) override {
    visit_bytes(size_of(y.dtype()), [&]<class T>() {
      for_each_item(stream(), "gather", g.outer * g.picks * g.inner,
                    Gather<T, false>{g, pointer<const T>(x), pointer<const int64_t>(index),
                                     pointer<T>(y), context_.faults()});
    });
  }

  void gather_backward(const GatherGeometry& g, const Tensor& index, const Tensor& dy,
                       const Tensor& dx) override {
    visit_real(dx.dtype(), [&]<class T>() {
      for_each_item(stream(), "gather_backward", g.outer * g.extent * g.inner,
                    GatherBackward<T>{g, pointer<const int64_t>(index), pointer<const T>(dy),
                                      pointer<T>(dx)});
    });
  }

  void embedding(const Tensor& table, const Tensor& index, const Tensor& y) override {
    const GatherGeometry g{.outer = 1, .extent = table.extent(0), .inner = table.extent(1)};
    visit_bytes(size_of(y.dtype()), [&]<class T>() {
      for_each_item(stream(), "embedding", y.count(),
                    Gather<T, true>{g, pointer<const T>(table), pointer<const int64_t>(index),
                                    pointer<T>(y), context_.faults()});
    });
  }

  void embedding_backward(const Tensor& index, const Tensor& dy, const Tensor& dtable) override {
    check(cudaMemsetAsync(dtable.raw(), 0, static_cast<size_t>(dtable.bytes()), stream()),
          "embedding_backward");
    visit_real(dtable.dtype(), [&]<class T>() {
      launch_kernel(stream(), "embedding_backward", static_cast<unsigned>(index.count()),
                    embedding_backward_kernel<T>, index, index.count(), dtable.extent(0),
                    dtable.extent(1), dy, dtable);
    });
  }

  void one_hot(const Tensor& index, const Tensor& y) override {
    const uint64_t one = bits_of(1, y.dtype());
    visit_bytes(size_of(y.dtype()), [&]<class T>() {
      for_each_item(stream(), "one_hot", y.count(),
                    OneHot<T>{static_cast<T>(one), pointer<const int64_t>(index), y.extent(-1),
                              pointer<T>(y), context_.faults()});
    });
  }
};

}  // namespace

std::shared_ptr<ShapeIndexKernels> make_shape_index(CudaDevice& device) {
  return std::make_shared<ShapeIndex>(device);
}

}  // namespace whisker::cuda
