// Pointwise kernels: memory-bound, so each reads its operands once in 16-byte packs. The function
// is a switch within the kernel: its cost is hidden by the memory accesses, and the build stays
// small.
#include "core/backend/dropout_mask.h"
#include "core/backend/elementwise.h"
#include "core/cuda/device_code/activations.cuh"
#include "core/cuda/device_code/elementwise.cuh"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/memory/cuda_device.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/ops/broadcast.cuh"
#include "core/cuda/ops/launchers.h"
#include "core/cuda/ops/number.cuh"

namespace whisker::cuda {
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
struct Fill {
  T value;
  T* y;
  __device__ void operator()(int64_t i) const { y[i] = value; }
};

/// Conversion between any dtypes.
struct Cast {
  DType from, to;
  const void* x;
  void* y;
  __device__ void operator()(int64_t i) const {
    store_number(from, load_number(from, x, i), to, y, i);
  }
};

template <class T>
struct Where {
  const bool* condition;
  const T *a, *b;
  T* y;
  __device__ void operator()(int64_t i) const { y[i] = condition[i] ? a[i] : b[i]; }
};

template <class Index>
__global__ void __launch_bounds__(block_threads)
    compare_kernel(CompareOp op, BroadcastGeometry g, const __grid_constant__ Divisors<Index> by,
                   DType dtype, const void* a, const void* b, bool* y) {
  for (int64_t i = first_item(); i < g.count; i += item_step()) {
    const Offsets at = offsets_of<Index>(g.rank, by, i, g.a_stride, g.b_stride);
    const Number left = load_number(dtype, a, at.a);
    const Number right = load_number(dtype, b, at.b);
    y[i] = is_floating(dtype) ? compares(op, left.real, right.real)
                              : compares(op, left.integer, right.integer);
  }
}

// A thread draws one Philox block and keeps or drops its four elements: each pass draws the same
// mask where it applies it (core/backend/dropout_mask.h).
template <class T, int N>
__global__ void __launch_bounds__(block_threads)
    dropout_kernel(uint64_t threshold, float scale, RandomKey key, const T* x, T* y,
                   int64_t count) {
  const uint64_t stream = dropout_stream(key);
  for (int64_t block = first_item(); block * 4 < count; block += item_step()) {
    const PhiloxBlock words = philox_block(key.seed, stream, static_cast<uint64_t>(block));
    const auto drop = [&](int k, T value) {
      return words[k] >= threshold ? from_f32<T>(to_f32(value) * scale) : from_f32<T>(0);
    };
    if (N == 4 && block * 4 + 4 <= count) {
      Pack<T, 4> pack = reinterpret_cast<const Pack<T, 4>*>(x)[block];
#pragma unroll
      for (int k = 0; k < 4; ++k) pack.at[k] = drop(k, pack.at[k]);
      reinterpret_cast<Pack<T, 4>*>(y)[block] = pack;
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int64_t i = block * 4 + k;
        if (i < count) y[i] = drop(k, x[i]);
      }
    }
  }
}

/// y = f(x...) over the elements of tensors of one dtype.
template <class F, class... In>
void map_tensors(cudaStream_t stream, const char* name, const F& f, const Tensor& y,
                 const In&... x) {
  visit_real(y.dtype(), [&]<class T>() {
    map(stream, name, y.count(), f, pointer<T>(y), pointer<const T>(x)...);
  });
}

class Elementwise final : public ElementwiseKernels, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  void fill(double value, const Tensor& y) override {
    if (y.count() == 0) return;
    const uint64_t bits = bits_of(value, y.dtype());
    if (bits == 0 || size_of(y.dtype()) == 1) {
      check(cudaMemsetAsync(y.raw(), static_cast<int>(bits), static_cast<size_t>(y.bytes()),
                            stream()),
            "fill");
      return;
    }
    visit_bytes(size_of(y.dtype()), [&]<class T>() {
      for_each_item(stream(), "fill", y.count(), Fill<T>{static_cast<T>(bits), pointer<T>(y)});
    });
  }

  void cast(const Tensor& x, const Tensor& y) override {
    const auto packed = [&]<class From, class To>() {
      map(stream(), "cast", y.count(), Identity{}, pointer<To>(y), pointer<const From>(x));
    };
    const auto is = [&](DType from, DType to) { return x.dtype() == from && y.dtype() == to; };
    if (is(DType::f32, DType::bf16)) return packed.operator()<float, bfloat_t>();
    if (is(DType::f32, DType::f16)) return packed.operator()<float, half_t>();
    if (is(DType::bf16, DType::f32)) return packed.operator()<bfloat_t, float>();
    if (is(DType::f16, DType::f32)) return packed.operator()<half_t, float>();
    for_each_item(stream(), "cast", y.count(), Cast{x.dtype(), y.dtype(), x.raw(), y.raw()});
  }

  void unary(const UnarySpec& spec, const Tensor& x, const Tensor& y) override {
    const Unary f{spec.op, static_cast<float>(spec.a), static_cast<float>(spec.b)};
    map_tensors(stream(), "unary", f, y, x);
  }

  void binary(BinaryOp op, const BroadcastGeometry& g, const BinaryInputs& in,
              const Tensor& y) override {
    if (g.same_shape()) return map_tensors(stream(), "binary", Binary{op}, y, in.a, in.b);
    visit_real(y.dtype(), [&]<class T>() {
      broadcast(stream(), Binary{op}, g, pointer<const T>(in.a), pointer<const T>(in.b),
                pointer<T>(y));
    });
  }

  void accumulate(const Tensor& term, const Tensor& sum) override {
    map_tensors(stream(), "accumulate", Binary{BinaryOp::add}, sum, sum, term);
  }

  void compare(CompareOp op, const BroadcastGeometry& g, const BinaryInputs& in,
               const Tensor& y) override {
    with_index(g.count, [&]<class Index>() {
      launch_kernel(stream(), "compare", grid_for(g.count), compare_kernel<Index>, op, g,
                    Divisors<Index>(g.rank, g.extent), in.a.dtype(), in.a, in.b, y);
    });
  }

  void where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& y) override {
    visit_bytes(size_of(y.dtype()), [&]<class T>() {
      for_each_item(stream(), "where", y.count(),
                    Where<T>{pointer<const bool>(condition), pointer<const T>(a),
                             pointer<const T>(b), pointer<T>(y)});
    });
  }

  void activation(ActivationSpec f, const Tensor& x, const Tensor& y) override {
    map_tensors(stream(), "activation", Activate{f}, y, x);
  }

  void activation_backward(ActivationSpec f, const Tensor& saved, const Tensor& dy,
                           const Tensor& dx) override {
    map_tensors(stream(), "activation_backward", ActivateBackward{f}, dx, saved, dy);
  }

  void activation_second(ActivationSpec f, const ActivationSecondInputs& in,
                         const Tensor& out) override {
    map_tensors(stream(), "activation_second", ActivateSecond{f}, out, in.saved, in.dy, in.v);
  }

  void dropout(double rate, const RandomKey& key, const Tensor& x, const Tensor& y) override {
    kernels::dropout(stream(), rate, key, y.dtype(), x.raw(), y.raw(), y.count());
  }
};

}  // namespace

void kernels::accumulate(cudaStream_t stream, DType dtype, const void* term, void* sum,
                         int64_t count) {
  visit_real(dtype, [&]<class T>() {
    map(stream, "accumulate", count, Binary{BinaryOp::add}, static_cast<T*>(sum),
        static_cast<const T*>(sum), static_cast<const T*>(term));
  });
}

void kernels::dropout(cudaStream_t stream, double rate, const RandomKey& key, DType dtype,
                      const void* x, void* y, int64_t count) {
  if (count == 0) return;
  const auto scale = static_cast<float>(1 / (1 - rate));
  const uint64_t threshold = dropout_threshold(rate);
  visit_real(dtype, [&]<class T>() {
    const bool packs = aligned_for<4>(static_cast<const T*>(x), static_cast<T*>(y));
    launch_kernel(stream, "dropout", grid_for((count + 3) / 4),
                  packs ? dropout_kernel<T, 4> : dropout_kernel<T, 1>, threshold, scale, key, x, y,
                  count);
  });
}

std::shared_ptr<ElementwiseKernels> make_elementwise(CudaDevice& device) {
  return std::make_shared<Elementwise>(device);
}

}  // namespace whisker::cuda
