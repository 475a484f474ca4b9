// Pointwise kernels: memory-bound, so each reads its operands once in 16-byte packs. The function
// is a switch within the kernel: its cost is hidden by the memory accesses, and the build stays
// small.
#include "core/cuda/device_code/activations.cuh"
#include "core/cuda/device_code/channels.cuh"
#include "core/cuda/device_code/elementwise.cuh"
#include "core/cuda/ops/elementwise.h"
#include "core/cuda/ops/number.cuh"
#include "core/cuda/ops/walk.cuh"

namespace whisker::cuda::kernels {
namespace {

struct Unary {
  UnaryOp op;
  float a, b;

  __device__ float operator()(float x) const {
    switch (op) {
      case UnaryOp::neg:
        return -x;
      case UnaryOp::exp:
        return expf(x);
      case UnaryOp::log:
        return logf(x);
      case UnaryOp::sqrt:
        return sqrtf(x);
      case UnaryOp::reciprocal:
        return 1.0f / x;
      case UnaryOp::abs:
        return fabsf(x);
      case UnaryOp::sign:
        return isnan(x) ? x : static_cast<float>((x > 0) - (x < 0));
      case UnaryOp::pow:
        return powf(x, a);
      case UnaryOp::clamp:
        return x < a ? a : x > b ? b : x;
      case UnaryOp::inside:
        return x >= a && x <= b ? 1 : 0;
      case UnaryOp::affine:
        return fmaf(a, x, b);
    }
    return x;
  }
};

struct Binary {
  BinaryOp op;

  __device__ float operator()(float a, float b) const {
    switch (op) {
      case BinaryOp::add:
        return a + b;
      case BinaryOp::sub:
        return a - b;
      case BinaryOp::mul:
        return a * b;
      case BinaryOp::div:
        return a / b;
      case BinaryOp::maximum:
        return a >= b || isnan(a) ? a : b;
      case BinaryOp::minimum:
        return a <= b || isnan(a) ? a : b;
    }
    return a;
  }
};

struct Identity {
  __device__ float operator()(float x) const { return x; }
};

struct Activate {
  ActivationSpec f;
  __device__ float operator()(float x) const { return activate(f, x); }
};
struct ActivateBackward {
  ActivationSpec f;
  __device__ float operator()(float saved, float dy) const {
    return activation_gradient(f, saved, dy);
  }
};
struct ActivateSecond {
  ActivationSpec f;
  __device__ float operator()(float saved, float dy, float v) const {
    return activation_curvature(f, saved) * dy * v;
  }
};

template <class T>
__global__ void __launch_bounds__(block_threads) fill_kernel(T value, T* y, int64_t count) {
  for (int64_t i = first_item(); i < count; i += item_step()) y[i] = value;
}

template <class T>
void fill_elements(cudaStream_t stream, uint64_t bits, void* y, int64_t count) {
  fill_kernel<<<grid_for(count), block_threads, 0, stream>>>(static_cast<T>(bits),
                                                             static_cast<T*>(y), count);
}

__global__ void __launch_bounds__(block_threads)
    cast_kernel(DType from, const void* x, DType to, void* y, int64_t count) {
  for (int64_t i = first_item(); i < count; i += item_step()) {
    store_number(from, load_number(from, x, i), to, y, i);
  }
}

// Offsets of both operands of a broadcast, computed as Index.
struct Offsets {
  int64_t a, b;
};
template <class Index>
__device__ Offsets offsets_of(const BroadcastGeometry& g, const Divisors<Index>& by,
                              int64_t element) {
  Index a = 0, b = 0;
  visit_coordinates(g.rank, by, static_cast<Index>(element), [&](int axis, Index coordinate) {
    a += coordinate * static_cast<Index>(g.a_stride[axis]);
    b += coordinate * static_cast<Index>(g.b_stride[axis]);
  });
  return {static_cast<int64_t>(a), static_cast<int64_t>(b)};
}

/// A pack of an operand, or the element that is all of it. Each has registers of its own: those of
/// a pack could be written only once its load has come, and later loads would wait.
template <class T, int N>
struct Operand {
  PackBytes<T, N> pack;
  T element;

  __device__ void load(const T* x, bool spread, int64_t at) {
    if (spread) {
      element = x[at];
    } else {
      pack = load_pack_bytes<N>(x, at * N);
    }
  }
  __device__ Pack<T, N> values(bool spread) const {
    Pack<T, N> result = unpack<T, N>(pack);
#pragma unroll
    for (int k = 0; k < N; ++k) result.at[k] = spread ? element : result.at[k];
    return result;
  }
};

// Blocks of broadcast_kernel per multiprocessor, against memory's latency: below compute capability
// 8.0 one holds 1,024 threads.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int broadcast_blocks = 4;
#else
constexpr int broadcast_blocks = 5;
#endif

/// A thread computes `together` packs of N elements of the last axis at a time. The geometry counts
/// packs; an operand that is broadcast along the last axis has strides in elements.
template <class T, int N, class Index>
__global__ void __launch_bounds__(block_threads, sizeof(Index) == 4 ? broadcast_blocks : 1)
    broadcast_kernel(Binary f, BroadcastGeometry g, const __grid_constant__ Divisors<Index> by,
                     const T* a, const T* b, T* y) {
  const bool spread_a = g.a_stride[g.rank - 1] == 0, spread_b = g.b_stride[g.rank - 1] == 0;
  constexpr int together = 2;
  for (int64_t first = first_item(); first < g.count; first += together * item_step()) {
    // All loads start before the first is used.
    Operand<T, N> left[together], right[together];
#pragma unroll
    for (int k = 0; k < together; ++k) {
      const int64_t i = first + k * item_step();
      if (i >= g.count) break;
      const Offsets at = offsets_of<Index>(g, by, i);
      left[k].load(a, spread_a, at.a);
      right[k].load(b, spread_b, at.b);
    }
#pragma unroll
    for (int k = 0; k < together; ++k) {
      const int64_t i = first + k * item_step();
      if (i >= g.count) break;
      store_pack<N>(y, i * N,
                    map_pack<N, T>(f, left[k].values(spread_a), right[k].values(spread_b)));
    }
  }
}

/// Merges each N elements of the last axis into a pack; false where they are not packs. Operands
/// are dense: what is not broadcast along an axis is whole packs along it.
template <int N>
bool pack_up(BroadcastGeometry& g, bool aligned_a, bool aligned_b) {
  const auto last = static_cast<size_t>(g.rank - 1);
  if (g.extent[last] % N != 0) return false;
  const auto fits = [&](const Extents& stride, bool aligned) {
    return stride[last] == 0 || (stride[last] == 1 && aligned);
  };
  if (!fits(g.a_stride, aligned_a) || !fits(g.b_stride, aligned_b)) return false;
  for (Extents* stride : {&g.a_stride, &g.b_stride}) {
    if ((*stride)[last] == 0) continue;
    for (size_t axis = 0; axis < last; ++axis) (*stride)[axis] /= N;
  }
  g.extent[last] /= N;
  g.count /= N;
  return true;
}

template <class T>
__device__ bool compares(CompareOp op, T a, T b) {
  switch (op) {
    case CompareOp::equal:
      return a == b;
    case CompareOp::not_equal:
      return a != b;
    case CompareOp::less:
      return a < b;
    case CompareOp::less_equal:
      return a <= b;
    case CompareOp::greater:
      return a > b;
    case CompareOp::greater_equal:
      return a >= b;
  }
  return false;
}

template <class Index>
__global__ void __launch_bounds__(block_threads)
    compare_kernel(CompareOp op, BroadcastGeometry g, const __grid_constant__ Divisors<Index> by,
                   DType dtype, const void* a, const void* b, bool* y) {
  for (int64_t i = first_item(); i < g.count; i += item_step()) {
    const Offsets at = offsets_of<Index>(g, by, i);
    const Number left = load_number(dtype, a, at.a);
    const Number right = load_number(dtype, b, at.b);
    y[i] = is_floating(dtype) ? compares(op, left.real, right.real)
                              : compares(op, left.integer, right.integer);
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    where_kernel(const bool* condition, const T* a, const T* b, T* y, int64_t count) {
  for (int64_t i = first_item(); i < count; i += item_step()) y[i] = condition[i] ? a[i] : b[i];
}

template <class T>
void broadcast(cudaStream_t stream, BinaryOp op, BroadcastGeometry g, const T* a, const T* b,
               T* y) {
  const auto launch = [&]<int N>() {
    constexpr int64_t fills_gpu = 1 << 18;  // threads
    const unsigned grid = grid_for(g.count > fills_gpu ? (g.count + 1) / 2 : g.count);
    with_index(g.count, [&]<class Index>() {
      broadcast_kernel<T, N, Index><<<grid, block_threads, 0, stream>>>(
          Binary{op}, g, Divisors<Index>(g.rank, g.extent), a, b, y);
    });
  };
  constexpr int n = pack_size<T>;
  if (aligned_for<n>(y) && pack_up<n>(g, aligned_for<n>(a), aligned_for<n>(b))) {
    launch.template operator()<n>();
  } else {
    launch.template operator()<1>();
  }
  check_launch("binary");
}

}  // namespace

void fill(cudaStream_t stream, uint64_t bits, size_t element_bytes, void* y, int64_t count) {
  if (count == 0) return;
  if (bits == 0 || element_bytes == 1) {
    check(cudaMemsetAsync(y, static_cast<int>(bits & 0xff),
                          static_cast<size_t>(count) * element_bytes, stream),
          "fill");
    return;
  }
  if (element_bytes == 2) fill_elements<uint16_t>(stream, bits, y, count);
  if (element_bytes == 4) fill_elements<uint32_t>(stream, bits, y, count);
  if (element_bytes == 8) fill_elements<uint64_t>(stream, bits, y, count);
  check_launch("fill");
}

void cast(cudaStream_t stream, DType from, const void* x, DType to, void* y, int64_t count) {
  if (count == 0) return;
  const auto packed = [&]<class From, class To>() {
    map(stream, "cast", count, Identity{}, static_cast<To*>(y), static_cast<const From*>(x));
  };
  if (from == DType::f32 && to == DType::bf16) return packed.operator()<float, bfloat_t>();
  if (from == DType::f32 && to == DType::f16) return packed.operator()<float, half_t>();
  if (from == DType::bf16 && to == DType::f32) return packed.operator()<bfloat_t, float>();
  if (from == DType::f16 && to == DType::f32) return packed.operator()<half_t, float>();
  cast_kernel<<<grid_for(count), block_threads, 0, stream>>>(from, x, to, y, count);
  check_launch("cast");
}

void unary(cudaStream_t stream, const UnarySpec& spec, DType dtype, const void* x, void* y,
           int64_t count) {
  const Unary f{spec.op, static_cast<float>(spec.a), static_cast<float>(spec.b)};
  visit_real(dtype, [&]<class T>() {
    map(stream, "unary", count, f, static_cast<T*>(y), static_cast<const T*>(x));
  });
}

void binary(cudaStream_t stream, BinaryOp op, const BroadcastGeometry& g, DType dtype,
            const void* a, const void* b, void* y) {
  visit_real(dtype, [&]<class T>() {
    const auto* left = static_cast<const T*>(a);
    const auto* right = static_cast<const T*>(b);
    if (g.same_shape()) {
      map(stream, "binary", g.count, Binary{op}, static_cast<T*>(y), left, right);
      return;
    }
    broadcast(stream, op, g, left, right, static_cast<T*>(y));
  });
}

void accumulate(cudaStream_t stream, DType dtype, const void* term, void* sum, int64_t count) {
  visit_real(dtype, [&]<class T>() {
    map(stream, "accumulate", count, Binary{BinaryOp::add}, static_cast<T*>(sum),
        static_cast<const T*>(sum), static_cast<const T*>(term));
  });
}

void compare(cudaStream_t stream, CompareOp op, const BroadcastGeometry& g, DType dtype,
             const void* a, const void* b, bool* y) {
  with_index(g.count, [&]<class Index>() {
    compare_kernel<<<grid_for(g.count), block_threads, 0, stream>>>(
        op, g, Divisors<Index>(g.rank, g.extent), dtype, a, b, y);
  });
  check_launch("compare");
}

void where(cudaStream_t stream, const bool* condition, size_t element_bytes, const void* a,
           const void* b, void* y, int64_t count) {
  const auto launch = [&]<class T>() {
    where_kernel<<<grid_for(count), block_threads, 0, stream>>>(
        condition, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y), count);
  };
  if (element_bytes == 1) launch.operator()<uint8_t>();
  if (element_bytes == 2) launch.operator()<uint16_t>();
  if (element_bytes == 4) launch.operator()<uint32_t>();
  if (element_bytes == 8) launch.operator()<uint64_t>();
  check_launch("where");
}

void activation(cudaStream_t stream, ActivationSpec f, DType dtype, const void* x, void* y,
                int64_t count) {
  visit_real(dtype, [&]<class T>() {
    map(stream, "activation", count, Activate{f}, static_cast<T*>(y), static_cast<const T*>(x));
  });
}

void activation_backward(cudaStream_t stream, ActivationSpec f, DType dtype, const void* saved,
                         const void* dy, void* dx, int64_t count) {
  visit_real(dtype, [&]<class T>() {
    map(stream, "activation_backward", count, ActivateBackward{f}, static_cast<T*>(dx),
        static_cast<const T*>(saved), static_cast<const T*>(dy));
  });
}

void activation_second(cudaStream_t stream, ActivationSpec f, DType dtype, const void* saved,
                       const void* dy, const void* v, void* out, int64_t count) {
  visit_real(dtype, [&]<class T>() {
    map(stream, "activation_second", count, ActivateSecond{f}, static_cast<T*>(out),
        static_cast<const T*>(saved), static_cast<const T*>(dy), static_cast<const T*>(v));
  });
}

}  // namespace whisker::cuda::kernels
