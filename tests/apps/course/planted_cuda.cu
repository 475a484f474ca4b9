// Answers to the exercises that only a GPU can run, in the form that `study grade` builds: the
// environment's FAULT says which. Number 0 is the solution, each other one has one fault.
// planted_gpu.cpp names what each is.
#include "gpu/gpu.h"

#include <cstdlib>
#include <iterator>
#include <type_traits>

#include <cuda_pipeline.h>
#include <mma.h>

namespace solutions {
#include "solutions/async_copy.cu"
#include "solutions/tensor_cores.cu"
}  // namespace solutions

template <int fault>
__global__ void faulty_product(const __half* a, const __half* b, float* c) {
  using namespace nvcuda::wmma;
  using OrderOfA = std::conditional_t<fault == 2, col_major, row_major>;
  using OrderOfB = std::conditional_t<fault == 3, col_major, row_major>;
  fragment<matrix_a, 16, 16, 16, __half, OrderOfA> of_a;
  fragment<matrix_b, 16, 16, 16, __half, OrderOfB> of_b;
  fragment<accumulator, 16, 16, 16, float> of_c;
  fill_fragment(of_c, 0.0f);
  load_matrix_sync(of_a, fault == 6 ? b : a, fault == 8 ? 8 : 16);
  load_matrix_sync(of_b, fault == 6 || fault == 7 ? a : b, 16);
  mma_sync(of_c, of_a, of_b, of_c);
  if (fault == 5) mma_sync(of_c, of_a, of_b, of_c);
  if (fault != 1) store_matrix_sync(c, of_c, 16, fault == 4 ? mem_col_major : mem_row_major);
}

template <int fault>
__global__ void faulty_copy(const float* x, float* y, int n) {
  __shared__ float buffers[2][64];
  const int t = static_cast<int>(threadIdx.x), step = fault == 9 ? 128 : 64;
  if (fault == 7) n -= 64;
  __pipeline_memcpy_async(&buffers[0][t], x + t, sizeof(float));
  __pipeline_commit();
  for (int begin = 0; begin < n && fault != 1; begin += step) {
    const int now = begin / step % 2, next = begin + step;
    const int copied = fault == 5 ? 0 : fault == 6 ? begin : next;
    if (next < n) __pipeline_memcpy_async(&buffers[1 - now][t], x + copied + t, sizeof(float));
    if (next < n || fault != 3) __pipeline_commit();
    if (fault != 2) __pipeline_wait_prior(fault == 4 ? 0 : 1);
    __syncthreads();
    const float value = buffers[fault == 4 ? 1 - now : now][t];
    y[(fault == 10 ? 0 : begin) + t] = (fault == 8 ? 1 : 2) * value;
    __syncthreads();
  }
}

void (*const products[])(const __half*, const __half*, float*) = {
    solutions::tensor_cores, faulty_product<1>, faulty_product<2>,
    faulty_product<3>,       faulty_product<4>, faulty_product<5>,
    faulty_product<6>,       faulty_product<7>, faulty_product<8>};
void (*const copies[])(const float*, float*, int) = {
    solutions::async_copy, faulty_copy<1>, faulty_copy<2>, faulty_copy<3>,
    faulty_copy<4>,        faulty_copy<5>, faulty_copy<6>, faulty_copy<7>,
    faulty_copy<8>,        faulty_copy<9>, faulty_copy<10>};
const size_t number = std::strtoul(std::getenv("FAULT"), nullptr, 10);  // of one of the two
void (*const tensor_cores)(const __half*, const __half*,
                           float*) = products[number % std::size(products)];
void (*const async_copy)(const float*, float*, int) = copies[number % std::size(copies)];
