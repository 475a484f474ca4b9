// Wrong kernels. Compiled with -fsanitize=thread,bounds, as `whisker study grade` compiles an
// answer.
#include "docs/course/gpu/launch.h"
#include "tests/apps/course/planted.h"

namespace whisker {
namespace {

namespace solutions {
#include "docs/course/solutions/block_sum.cu"
#include "docs/course/solutions/grid_stride.cu"
#include "docs/course/solutions/histogram.cu"
#include "docs/course/solutions/matmul_tiled.cu"
#include "docs/course/solutions/row_sum.cu"
#include "docs/course/solutions/softmax_rows.cu"
#include "docs/course/solutions/stencil.cu"
#include "docs/course/solutions/transpose.cu"
#include "docs/course/solutions/vector_add.cu"
}  // namespace solutions
namespace solutions {
#include "docs/course/exercises/block_sum/call.h"
#include "docs/course/exercises/grid_stride/call.h"
#include "docs/course/exercises/histogram/call.h"
#include "docs/course/exercises/matmul_tiled/call.h"
#include "docs/course/exercises/row_sum/call.h"
#include "docs/course/exercises/softmax_rows/call.h"
#include "docs/course/exercises/stencil/call.h"
#include "docs/course/exercises/transpose/call.h"
#include "docs/course/exercises/vector_add/call.h"
}  // namespace solutions
#define FAULT 1
#include "tests/apps/course/planted_gpu_kernels.h"
#define FAULT 2
#include "tests/apps/course/planted_gpu_kernels.h"
#define FAULT 3
#include "tests/apps/course/planted_gpu_kernels.h"
#define FAULT 4
#include "tests/apps/course/planted_gpu_kernels.h"
#define FAULT 5
#include "tests/apps/course/planted_gpu_kernels.h"
#define FAULT 6
#include "tests/apps/course/planted_gpu_kernels.h"
#define FAULT 7
#include "tests/apps/course/planted_gpu_kernels.h"
#define FAULT 8
#include "tests/apps/course/planted_gpu_kernels.h"
#define FAULT 9
#include "tests/apps/course/planted_gpu_kernels.h"

// Number 0 is the solution; causes are those of 1, 2, ... No answers: they are in planted_cuda.cu.
void plant_kernels(std::vector<Planted>& all, const char* exercise,
                   const std::vector<const char*>& causes, const std::vector<RunOne>& answers) {
  for (size_t number = 0; number <= causes.size(); ++number) {
    const char* const cause = number == 0 ? "" : causes[number - 1];
    const RunOne answer = answers.empty() ? RunOne() : answers.at(number);
    all.push_back({exercise, static_cast<int>(number), cause, {}, answer});
  }
}

#define KERNELS(name)                                                                             \
  {                                                                                               \
    run_one(solutions::name<float>), run_one(fault1::name<float>), run_one(fault2::name<float>),  \
        run_one(fault3::name<float>), run_one(fault4::name<float>), run_one(fault5::name<float>), \
        run_one(fault6::name<float>), run_one(fault7::name<float>), run_one(fault8::name<float>), \
        run_one(fault9::name<float>)                                                              \
  }

// What the emulation says of a kernel that takes 64 floats of x and of y; "": nothing.
std::string said_of(void (*kernel)(const float*, float*), dim3 blocks = 2, dim3 threads = 32) {
  const int extents[] = {64};
  float x[64], y[64] = {};
  for (int i = 0; i < 64; ++i) x[i] = static_cast<float>(i);
  const gpu::Array<float> on_x(course::View<const float>{x, extents, 1, "x"});
  const gpu::Array<float> on_y(course::View<float>{y, extents, 1, "y"}, {y, extents, 1, "y"});
  try {
    gpu::launch(blocks, threads, kernel, on_x, on_y);
  } catch (const course::Stop& reason) {
    return reason.text;
  }
  return "";
}

void takes_tickets(const float* x, float* y) {
  const int ticket = static_cast<int>(atomicAdd(&y[0], 1.0f)) % 32;
  if (threadIdx.x < 31) y[1 + ticket + 32 * static_cast<int>(blockIdx.x) % 31] = x[threadIdx.x];
}
void adds_and_reads(const float*, float* y) {
  atomicAdd(&y[0], 1.0f);
  __syncthreads();
  if (threadIdx.x == 0) y[1 + blockIdx.x] = y[0];
}
void writes_one_value(const float*, float* y) {
  __shared__ float flag;
  flag = 3;
  __syncthreads();
  y[0] = flag;
}
void sums_by_shuffles(const float* x, float* y) {
  float sum = x[threadIdx.x % 32];
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
  if (sum != 496) y[threadIdx.x] = sum;
  if (__shfl_up_sync(~0u, threadIdx.x, 1) + (threadIdx.x % 32 > 0) != threadIdx.x) y[1] = 1;
}
void exchanges_in_the_warp(const float* x, float* y) {
  __shared__ float tile[32];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncwarp();
  y[blockIdx.x * 32 + threadIdx.x] = tile[31 - threadIdx.x];
}
void exchanges_without_a_barrier(const float* x, float* y) {
  __shared__ float tile[32];
  tile[threadIdx.x] = x[threadIdx.x];
  y[blockIdx.x * 32 + threadIdx.x] = tile[31 - threadIdx.x];
}
void writes_four_at_once(const float* x, float* y) {
  const int i = static_cast<int>(threadIdx.x + blockIdx.x * blockDim.x);
  if (i <= 16) reinterpret_cast<float4*>(y)[i] = reinterpret_cast<const float4*>(x)[i];
}

}  // namespace

std::map<std::string, std::string> said_by_emulation() {
  return {{"tickets", said_of(takes_tickets, 1)},
          {"adds and reads", said_of(adds_and_reads)},
          {"one value", said_of(writes_one_value)},
          {"shuffles", said_of(sums_by_shuffles, 2, 64)},
          {"in the warp", said_of(exchanges_in_the_warp)},
          {"without a barrier", said_of(exchanges_without_a_barrier)},
          {"four at once", said_of(writes_four_at_once)}};
}

void plant_gpu(std::vector<Planted>& all) {
  plant_kernels(all, "vector_add",
                {"a has 1 element: check the index first", "no thread writes sum[64]",
                 "no thread writes sum[", "no thread writes sum[0]", "no thread writes sum[0]",
                 "check the index first", "b is not added", "need 128 reads"},
                KERNELS(launch_vector_add));
  plant_kernels(all, "grid_stride",
                {"one change is lost", "one change is lost", "each thread takes one element",
                 "check the index first", "y is as it was", "y is not added", "a is left out",
                 "not coalesced", "y is added twice"},
                KERNELS(launch_saxpy));
  plant_kernels(
      all, "block_sum",
      {"a __syncthreads() is missing", "a __syncthreads() is missing", "check the index first",
       "must be reached by all threads", "Nothing orders the two", "check the index first",
       "the sum of the first one", "every second element is left out", "0 everywhere"},
      KERNELS(launch_block_sum));
  plant_kernels(all, "row_sum",
                {"not coalesced", "check the index first", "the first 32 columns alone",
                 "the sum of the first one", "the sum of lane 0", "waits for lanes of its warp",
                 "no thread writes sums[0]"},
                KERNELS(launch_row_sum));
  plant_kernels(all, "transpose",
                {"lanes of a warp access one bank", "not coalesced", "check the index first",
                 "a __syncthreads() is missing", "not transposed itself", "nothing is transposed",
                 "no thread writes y[", "no thread writes y[0]"},
                KERNELS(launch_transpose));
  plant_kernels(
      all, "softmax_rows",
      {"those with 200 columns", "a __syncthreads() is missing", "a __syncthreads() is missing",
       "the division by the sum is missing", "check the index first",
       "must be reached by all threads", "no thread writes y[", "no thread writes y[0]"},
      KERNELS(launch_softmax_rows));
  plant_kernels(all, "histogram",
                {"one change is lost", "one change is lost",
                 "reads shared memory, before any thread", "a __syncthreads() is missing",
                 "a __syncthreads() is missing", "check the index first", "0 everywhere"},
                KERNELS(launch_histogram));
  plant_kernels(
      all, "stencil",
      {"x[-2]", "check the index first", "the halo is missing", "a __syncthreads() is missing",
       "must be reached by all threads", "weights are in the reverse order", "0 everywhere",
       "before any thread has written it", "check the index first"},
      KERNELS(launch_stencil));
  plant_kernels(
      all, "matmul_tiled",
      {"a __syncthreads() is missing", "a __syncthreads() is missing", "check the index first",
       "in shared memory need", "the tile of B is read the other way", "the first tiles alone",
       "where they are not full", "the last tiles alone", "0 everywhere"},
      KERNELS(launch_matmul_tiled));
  plant_kernels(all, "tensor_cores",
                {"0 everywhere", "A^T B", "A B^T", "transposed: rows and columns are interchanged",
                 "2 times what it should be", "it is B A", "it is A A", ""},
                {});
  plant_kernels(all, "async_copy",
                {"0 everywhere", "", "", "the buffer that is being filled",
                 "the address of the copies", "each tile but the first is the one before",
                 "the last tile is left out", "0.5 times what it should be",
                 "y(64) is the first that is never written", "each check but those with 5 tiles"},
                {});
}

}  // namespace whisker
