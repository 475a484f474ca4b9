// What becomes of the rows that a depthwise convolution completes: stored behind bias and
// activation; stored and added up for a batch norm behind; or, being the gradient of what the batch
// norm before them made, taken on through it. An object has a thread's channels.
#pragma once

#include "core/cuda/convolution/add_slices.cuh"
#include "core/cuda/convolution/depthwise_norm.cuh"

#include <cstdint>

namespace whisker::cuda::depthwise {

/// A row of a strip: the channels of column t are at + t stride, and it exists where bit t is set.
struct StripRow {
  int64_t at;
  int stride;
  uint32_t inside;
};

template <class T>
__device__ inline void store_columns(T* to, const StripRow& row, const float (&z)[tile][channels]) {
  to += row.at;
#pragma unroll
  for (int t = 0; t < tile; ++t) {
    const auto pack = pack_channels<T>(z[t]);
    if (row.inside >> t & 1) *reinterpret_cast<PackBytes<T, channels>*>(to) = pack;
    to += row.stride;
  }
}

/// f of each sum. They take turns in one loop: unrolled, f would be most of a kernel's code.
__device__ inline void activate_columns(ActivationSpec f, float (&sums)[tile][channels]) {
  if (f.kind == Activation::none) return;
#pragma unroll 1
  for (int turn = 0; turn < tile * channels; ++turn) {
    const float z = activate(f, sums[0][0]);
#pragma unroll
    for (int k = 0; k + 1 < tile * channels; ++k) {
      sums[k / channels][k % channels] = sums[(k + 1) / channels][(k + 1) % channels];
    }
    sums[tile - 1][channels - 1] = z;
  }
}

/// y = f(z + b)
template <class T>
class StoredRows {
 public:
  struct Operands {
    ActivationSpec activation;
    const T* b;  ///< or null
    T* y;
  };
  static constexpr bool reads_norm = false, adds_up = false;

  __device__ StoredRows(const Operands& o, int channel) : o_(o) {
#pragma unroll
    for (int v = 0; v < channels; ++v) start[v] = o.b ? to_f32(o.b[channel + v]) : 0.0f;
  }
  /// Starts to load what use() of the row, the p-th of those completed together, reads besides.
  __device__ void load(int /*p*/, const StripRow&) {}
  __device__ void use(int /*p*/, const StripRow& row, float (&z)[tile][channels]) {
    activate_columns(o_.activation, z);
    store_columns(o_.y, row, z);
  }

  float start[channels];  ///< of the sums over taps

 private:
  const Operands& o_;
};

/// y = z, and the sums of y and of its squares. f32 adds deviations from the thread's first y,
/// against cancellation (Chan, Golub and LeVeque 1983, "shifted data"); f64 takes them together.
template <class T>
class SummedRows {
 public:
  struct Operands {
    T* y;
  };
  static constexpr bool reads_norm = true, adds_up = true;

  __device__ SummedRows(const Operands& o, int /*channel*/) : y_(o.y) {}
  __device__ void load(int /*p*/, const StripRow&) {}
  __device__ void use(int /*p*/, const StripRow& row, float (&z)[tile][channels]) {
    store_columns(y_, row, z);
#pragma unroll
    for (int t = 0; t < tile; ++t) to_floats<T>(pack_channels<T>(z[t]), z[t]);
#pragma unroll
    for (int v = 0; v < channels; ++v) {
      if (count_ == 0) shift_[v] = z[0][v];
#pragma unroll
      for (int t = 0; t < tile; ++t) {
        const float deviation = row.inside >> t & 1 ? z[t][v] - shift_[v] : 0.0f;
        add_deviation(deviation, sum_[v], squares_[v]);
      }
    }
    count_ += __popc(row.inside);
  }
  __device__ double2 total(int v) const {
    return unshifted_sums(count_, shift_[v], sum_[v], squares_[v]);
  }

  float start[channels] = {};

 private:
  T* y_;
  int count_ = 0;
  float shift_[channels] = {}, sum_[channels] = {}, squares_[channels] = {};
};

/// z is the gradient of f(norm(x)): dz = f'(norm(x)) z, where it is wanted, and the sums of dz and
/// of dz (x - mean). `rows` are completed together.
template <class T, int rows>
class NormSumRows {
 public:
  struct Operands {
    ImageNorm norm;
    const T* x;
    T* dz;  ///< or null
  };
  static constexpr bool reads_norm = false, adds_up = true;

  __device__ NormSumRows(const Operands& o, int channel)
      : norm_(o.norm, channel), x_(o.x), dz_(o.dz) {}
  __device__ void load(int p, const StripRow& row) {
    load_columns<tile>(x_ + row.at, row.stride, row.inside, next_[p]);
  }
  __device__ void use(int p, const StripRow& row, float (&z)[tile][channels]) {
    norm_.template to_dz<T>(next_[p], z);
    if (dz_) store_columns(dz_, row, z);
#pragma unroll
    for (int t = 0; t < tile; ++t) {
      float x[channels];
      to_floats<T>(next_[p][t], x);
      if (dz_) to_floats<T>(pack_channels<T>(z[t]), z[t]);
#pragma unroll
      for (int v = 0; v < channels; ++v) {
        const float dz = row.inside >> t & 1 ? z[t][v] : 0.0f;
        sum_[v] += dz;
        correlation_[v] = fmaf(dz, norm_.centered(x[v], v), correlation_[v]);
      }
    }
  }
  __device__ double2 total(int v) const {
    return {sum_[v], correlation_[v]};
  }

  float start[channels] = {};

 private:
  ChannelNorm norm_;
  const T* x_;
  T* dz_;
  PackBytes<T, channels> next_[rows][tile];
  float sum_[channels] = {}, correlation_[channels] = {};
};

/// partial (slices, C) of this block: the totals of its threads, added in order.
template <class Rows>
__device__ void add_block(const Split& split, int first_channel, int channel_count,
                          const Rows& rows, double2* partial) {
  __shared__ double2 totals[threads * channels];
  const int width = split.lanes * channels, at = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int v = 0; v < channels; ++v) totals[at * channels + v] = rows.total(v);
  __syncthreads();
  if (at >= width || first_channel + at >= channel_count) return;
  double2 sum{0, 0};
  for (int slot = 0; slot < split.positions; ++slot) {
    sum.x += totals[slot * width + at].x;
    sum.y += totals[slot * width + at].y;
  }
  partial[int64_t{blockIdx.x} * channel_count + first_channel + at] = sum;
}

}  // namespace whisker::cuda::depthwise
