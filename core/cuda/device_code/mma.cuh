// Small gemms of one warp on tensor cores (PTX ISA, mma and ldmatrix). Lane l of a warp is (g, t) =
// (l / 4, l % 4) throughout.
//
// Note [Fragments]
// Operands are split into units of 8 along k. For 16-bit types a unit of A (16 rows) is the pairs
// k = 2t, 2t+1 of row g and of row g + 8; of B (8 columns) those of column g. For f32, rounded to
// tf32, it is k = t and t + 4 of row g and of row g + 8; of B those of column g. The accumulator
// (16,8) holds columns 2t, 2t+1 of row g, then those of row g + 8.
#pragma once

#include "core/cuda/device_code/types.cuh"

#include <cstdint>
#include <type_traits>

namespace whisker::cuda {

/// Registers of one unit.
template <class T>
inline constexpr int a_registers = std::is_same_v<T, float> ? 4 : 2;
template <class T>
inline constexpr int b_registers = std::is_same_v<T, float> ? 2 : 1;

/// x as an operand in shared memory: f32 is rounded to tf32.
template <class T>
__device__ inline T mma_operand(T x) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, float>) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
  }
#endif
  return x;
}

#if __CUDA_ARCH__ >= 800

/// acc += A B over two units of a 16-bit type.
template <class T>
__device__ inline void multiply_add_two(float (&acc)[4], const uint32_t (&a0)[2],
                                        const uint32_t (&a1)[2], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, bfloat_t>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a0[0]), "r"(a0[1]), "r"(a1[0]), "r"(a1[1]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a0[0]), "r"(a0[1]), "r"(a1[0]), "r"(a1[1]), "r"(b0), "r"(b1));
  }
}

/// acc += A B over one unit.
template <class T>
__device__ inline void multiply_add(float (&acc)[4], const uint32_t (&a)[a_registers<T>],
                                    const uint32_t (&b)[b_registers<T>]) {
  if constexpr (std::is_same_v<T, float>) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else if constexpr (std::is_same_v<T, bfloat_t>) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
        "{%0,%1,%2,%3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
        "{%0,%1,%2,%3};"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]));
  }
}

/// Two units of A (16,16), each from 16-bit elements that are transposed in shared memory: lane l
/// points at the 8 elements (16-byte aligned) of k = l % 8 + 8 (l / 16), rows 8 (l / 8 % 2) on.
__device__ inline void load_transposed(const void* source, uint32_t (&a0)[2], uint32_t (&a1)[2]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(a0[0]), "=r"(a0[1]), "=r"(a1[0]), "=r"(a1[1])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(source))));
}
/// Two units of B (16,8), each from 16-bit elements that are transposed in shared memory: lane l <
/// 16 points at the 8 columns of k = l.
__device__ inline void load_transposed(const void* source, uint32_t (&b)[2]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(b[0]), "=r"(b[1])
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(source))));
}

#else  // GPUs without these instructions: never launched

template <class T>
__device__ inline void multiply_add_two(float (&)[4], const uint32_t (&)[2], const uint32_t (&)[2],
                                        uint32_t, uint32_t) {
  __trap();
}
template <class T>
__device__ inline void multiply_add(float (&)[4], const uint32_t (&)[a_registers<T>],
                                    const uint32_t (&)[b_registers<T>]) {
  __trap();
}
__device__ inline void load_transposed(const void*, uint32_t (&)[2], uint32_t (&)[2]) {
  __trap();
}
__device__ inline void load_transposed(const void*, uint32_t (&)[2]) {
  __trap();
}

#endif

}  // namespace whisker::cuda
