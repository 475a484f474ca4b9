// Packed vectors: packs as 32-bit words of one f32 or two 16-bit elements, with comparisons that
// return bit masks. One instruction handles two 16-bit elements, in half the registers.
#pragma once

#include "core/cuda/device_code/types.cuh"

#include <cstdint>
#include <type_traits>

namespace whisker::cuda {

/// CUDA's type of two 16-bit elements, the operand of its packed instructions.
template <class T>
using TwoElements = std::conditional_t<std::is_same_v<T, half_t>, __half2, __nv_bfloat162>;

template <class T>
__device__ inline TwoElements<T> two_elements(uint32_t word) {
  return reinterpret_cast<const TwoElements<T>&>(word);
}
template <class T, int N>
__device__ inline uint32_t word(const Pack<T, N>& pack, int i) {
  return reinterpret_cast<const uint32_t*>(&pack)[i];
}
template <class T, int N>
__device__ inline uint32_t& word(Pack<T, N>& pack, int i) {
  return reinterpret_cast<uint32_t*>(&pack)[i];
}

/// A pack's bytes between its load and its use. As a Pack, the compiler would split 16-bit elements
/// into one register each right after the load, and later loads would wait.
template <class T, int N>
using PackBytes = std::conditional_t<
    sizeof(Pack<T, N>) == 16, uint4,
    std::conditional_t<sizeof(Pack<T, N>) == 8, uint2,
                       std::conditional_t<sizeof(Pack<T, N>) == 4, uint32_t, uint16_t>>>;

template <int N, class T>
__device__ inline PackBytes<T, N> load_pack_bytes(const T* x, int64_t at) {
  static_assert(sizeof(PackBytes<T, N>) == sizeof(Pack<T, N>));
  return *reinterpret_cast<const PackBytes<T, N>*>(x + at);
}
/// A load of bytes that are not read again soon: they leave the L2 cache first.
template <int N, class T>
__device__ inline PackBytes<T, N> load_pack_bytes_once(const T* x, int64_t at) {
  return __ldcs(reinterpret_cast<const PackBytes<T, N>*>(x + at));
}
template <class T, int N>
__device__ inline Pack<T, N> unpack(const PackBytes<T, N>& bytes) {
  return reinterpret_cast<const Pack<T, N>&>(bytes);
}

/// Mask of the elements of a word that are above 0 or NaN.
template <class T>
__device__ inline uint32_t not_below_or_zero(uint32_t x) {
  if constexpr (sizeof(T) == 4) return __uint_as_float(x) <= 0 ? 0u : ~0u;
  if constexpr (sizeof(T) == 2) return __hgtu2_mask(two_elements<T>(x), two_elements<T>(0));
}
/// Mask of the elements of `later` that replace those of `earlier` in a maximum: larger ones and
/// the first NaN.
template <class T>
__device__ inline uint32_t beats(uint32_t later, uint32_t earlier) {
  if constexpr (sizeof(T) == 4) {
    const float first = __uint_as_float(earlier);
    return !(__uint_as_float(later) <= first) && first == first ? ~0u : 0u;
  } else {
    const TwoElements<T> first = two_elements<T>(earlier);
    return __hgtu2_mask(two_elements<T>(later), first) & __heq2_mask(first, first);
  }
}
/// The bits of a where the mask has ones, those of b elsewhere.
__device__ inline uint32_t choose(uint32_t mask, uint32_t a, uint32_t b) {
  return (mask & a) | (~mask & b);
}
/// Element-wise sums of words, rounded once: for two terms of 16 bits one packed instruction is as
/// exact as f32 (Figueroa 1995, "When is double rounding innocuous?").
template <class T, class... W>
__device__ inline uint32_t sum_of(W... words) {
  if constexpr (sizeof(T) == 4) {
    return __float_as_uint((... + __uint_as_float(words)));
  } else {
    TwoElements<T> sum;
    if constexpr (sizeof...(words) == 2) {
      sum = __hadd2(two_elements<T>(words)...);
    } else {
      sum.x = from_f32<T>((... + to_f32(two_elements<T>(words).x)));
      sum.y = from_f32<T>((... + to_f32(two_elements<T>(words).y)));
    }
    return reinterpret_cast<const uint32_t&>(sum);
  }
}

/// Elements of a pack of N in one of its words.
template <class T, int N>
inline constexpr int per_word = N > 1 && sizeof(T) == 2 ? 2 : 1;
/// The bit of a word that is the sign of its element e.
template <class T>
__device__ inline constexpr uint32_t sign_bit(int e) {
  return sizeof(T) == 4 || e == 1 ? 0x80000000u : 0x8000u;
}
/// Element e of a word.
template <class T>
__device__ inline float element(uint32_t word, int e) {
  if constexpr (sizeof(T) == 4) {
    return __uint_as_float(word);
  } else if constexpr (std::is_same_v<T, bfloat_t>) {
    // One instruction; from the element the compiler would need two.
    return __uint_as_float(e == 0 ? word << 16 : word & 0xffff0000u);
  } else {
    return to_f32(e == 0 ? two_elements<T>(word).x : two_elements<T>(word).y);
  }
}
/// The elements of a pack's bytes.
template <class T, int N>
__device__ inline void to_floats(const PackBytes<T, N>& bytes, float (&values)[N]) {
#pragma unroll
  for (int v = 0; v < N; ++v) {
    if constexpr (N == 1) {
      values[v] = to_f32(reinterpret_cast<const T&>(bytes));
    } else {
      constexpr int width = per_word<T, N>;
      values[v] = element<T>(reinterpret_cast<const uint32_t*>(&bytes)[v / width], v % width);
    }
  }
}
/// The values rounded to T.
template <class T, int N>
__device__ inline Pack<T, N> rounded(const float (&values)[N]) {
  Pack<T, N> pack;
#pragma unroll
  for (int v = 0; v < N; ++v) pack.at[v] = from_f32<T>(values[v]);
  return pack;
}
/// Two values rounded to a 16-bit type, by one instruction.
template <class T>
__device__ inline uint32_t two_rounded(float low, float high) {
  TwoElements<T> two;
  if constexpr (std::is_same_v<T, half_t>) two = __floats2half2_rn(low, high);
  if constexpr (std::is_same_v<T, bfloat_t>) two = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(two);
}
/// a b + c of words' elements, rounded once. Before compute capability 8.0 bf16 goes through f32.
template <class T>
__device__ inline uint32_t fma_of(uint32_t a, uint32_t b, uint32_t c) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  constexpr bool packed = std::is_same_v<T, half_t>;
#else
  constexpr bool packed = sizeof(T) == 2;
#endif
  if constexpr (packed) {
    const TwoElements<T> y = __hfma2(two_elements<T>(a), two_elements<T>(b), two_elements<T>(c));
    return reinterpret_cast<const uint32_t&>(y);
  } else {
    const auto fma_at = [&](int e) {
      return fmaf(element<T>(a, e), element<T>(b, e), element<T>(c, e));
    };
    if constexpr (sizeof(T) == 4) return __float_as_uint(fma_at(0));
    if constexpr (sizeof(T) == 2) return two_rounded<T>(fma_at(0), fma_at(1));
  }
}
/// Word i of a pack whose element v, element e of the word, is value(e, v), rounded.
template <class T, int N, class Value>
__device__ inline uint32_t mapped(int i, const Value& value) {
  if constexpr (sizeof(T) == 4) {
    return __float_as_uint(value(0, i));
  } else {
    TwoElements<T> two;
    two.x = from_f32<T>(value(0, i * per_word<T, N>));
    two.y = from_f32<T>(N > 1 ? value(1, i * 2 + 1) : 0.0f);
    return reinterpret_cast<const uint32_t&>(two);
  }
}

/// A pack of 16 bytes as words; a pack of one element fills the low end of one word.
template <class T, int N>
struct Packed {
  static constexpr int count = N == 1 ? 1 : 4;
  uint32_t at[count];

  __device__ static Packed filled(uint32_t word) {
    Packed result;
#pragma unroll
    for (int i = 0; i < count; ++i) result.at[i] = word;
    return result;
  }
};
template <class T, int N>
__device__ inline Packed<T, N> load_packed(const Pack<T, N>* from) {
  if constexpr (N > 1) {
    const uint4 loaded = *reinterpret_cast<const uint4*>(from);
    return {loaded.x, loaded.y, loaded.z, loaded.w};
  } else if constexpr (sizeof(T) == 4) {
    return {*reinterpret_cast<const uint32_t*>(from)};
  } else {
    return {*reinterpret_cast<const uint16_t*>(from)};
  }
}
template <class T, int N>
__device__ inline void store_packed(Pack<T, N>* to, const Packed<T, N>& value) {
  if constexpr (N > 1) {
    *reinterpret_cast<uint4*>(to) = {value.at[0], value.at[1], value.at[2], value.at[3]};
  } else if constexpr (sizeof(T) == 4) {
    *reinterpret_cast<uint32_t*>(to) = value.at[0];
  } else {
    *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(value.at[0]);
  }
}

/// The elements of a pack of 16 bytes (or the only one) whose argmax is `index`, 0 elsewhere.
template <class T, int N>
__device__ inline Pack<T, N> where_argmax(const Pack<T, N>& value, const Pack<uint8_t, N>& argmax,
                                          uint32_t index) {
  Pack<T, N> result;
  if constexpr (N == 1) {
    result.at[0] = argmax.at[0] == index ? value.at[0] : from_f32<T>(0.0f);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      constexpr int per_word = N / 4;
      const uint32_t same = __vcmpeq4(word(argmax, i * per_word / 4), index * 0x01010101u);
      // The mask of an element, in each of its bytes.
      const uint32_t bytes = per_word == 1 ? 0x1111u * static_cast<uint32_t>(i)
                             : i % 2 == 0  ? 0x1100u
                                           : 0x3322u;
      word(result, i) = word(value, i) & __byte_perm(same, 0, bytes);
    }
  }
  return result;
}

}  // namespace whisker::cuda
