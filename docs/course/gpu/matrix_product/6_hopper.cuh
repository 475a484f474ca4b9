// Level 6: what compute capability 9.0 (H100) adds. One thread starts copies of whole tiles (TMA)
// for the block; wgmma multiplies straight from shared memory, four warps together. One group of
// four warps, the producer, only copies; two groups, the consumers, only multiply. A block stays on
// its multiprocessor and takes tile after tile of 128 x 256 elements, so that copies for the next
// tile run while results are written. Extents are multiples of 256. Source: PTX ISA 9.0, mbarrier,
// cp.async.bulk.tensor, wgmma.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

namespace level6 {

using bf16 = __nv_bfloat16;
constexpr int tile_m = 128, tile_n = 256, depth = 64, stages = 4, threads = 384;

struct Shared {
  bf16 a[stages][tile_m * depth],
      b[stages][tile_n * depth];         // rows of 128 bytes, whose 16-byte parts TMA permutes
  uint64_t full[stages], empty[stages];  // mbarriers
};
constexpr size_t shared_bytes = sizeof(Shared) + 1024;  // the tiles begin at a multiple of 1024

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// clang-format off
__device__ inline uint32_t address(const void* shared) { return static_cast<uint32_t>(__cvta_generic_to_shared(shared)); }
__device__ inline void init(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(barrier)), "r"(arrivals));
}
__device__ inline void arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(barrier)) : "memory");
}
__device__ inline void arrive_and_expect(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(barrier)), "r"(bytes) : "memory");
}
// Until the phase of this parity is over.
__device__ inline void wait(uint64_t* barrier, int parity) {
  for (uint32_t over = 0; over == 0;) {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(over) : "r"(address(barrier)), "r"(parity) : "memory");
  }
}
__device__ inline void start_copy(bf16* to, const CUtensorMap* from, int column, int row, uint64_t* barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               ::"r"(address(to)), "l"(from), "r"(column), "r"(row), "r"(address(barrier)) : "memory");
}
// Where a tile lies, for wgmma: 8 rows take 1024 bytes, permuted in units of 128 bytes.
__device__ inline uint64_t descriptor(const bf16* tile) {
  return (address(tile) & 0x3FFFFu) >> 4 | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}
#define REGISTERS8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define REGISTERS32(i) REGISTERS8(i), REGISTERS8(i + 8), REGISTERS8(i + 16), REGISTERS8(i + 24)
// d += 64 x 16 elements of A times 16 x 256 of B.
__device__ inline void multiply(float (&d)[128], uint64_t a, uint64_t b) {
  asm volatile("{ .reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
      "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"
      "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, "
      "%128, %129, p, 1, 1, 0, 0; }"
      : REGISTERS32(0), REGISTERS32(32), REGISTERS32(64), REGISTERS32(96) : "l"(a), "l"(b));
}
// clang-format on
#endif

__global__ void __launch_bounds__(threads, 1)
    matmul(const __grid_constant__ CUtensorMap of_a, const __grid_constant__ CUtensorMap of_b,
           bf16* c, int m, int n, int k) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ unsigned char memory[];
  Shared& shared =
      *reinterpret_cast<Shared*>((reinterpret_cast<uintptr_t>(memory) + 1023) / 1024 * 1024);
  const int thread = static_cast<int>(threadIdx.x), group = thread / 128, rows = m / tile_m,
            tiles = rows * (n / tile_n);
  if (thread == 0) {
    for (int stage = 0; stage < stages; ++stage)
      init(&shared.full[stage], 1), init(&shared.empty[stage], 2);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  int step = 0;  // counts through all tiles of this block
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (thread != 0) return;
    for (int tile = static_cast<int>(blockIdx.x); tile < tiles;
         tile += static_cast<int>(gridDim.x)) {
      for (int begin = 0; begin < k; begin += depth, ++step) {
        const int stage = step % stages;
        if (step >= stages) wait(&shared.empty[stage], step / stages % 2 ^ 1);
        arrive_and_expect(&shared.full[stage],
                          (tile_m + tile_n) * depth * static_cast<int>(sizeof(bf16)));
        start_copy(shared.a[stage], &of_a, begin, tile % rows * tile_m, &shared.full[stage]);
        start_copy(shared.b[stage], &of_b, begin, tile / rows * tile_n, &shared.full[stage]);
      }
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    float d[128] = {};
    for (int begin = 0; begin < k; begin += depth, ++step) {
      const int stage = step % stages;
      wait(&shared.full[stage], step / stages % 2);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      const uint64_t a = descriptor(shared.a[stage] + (group - 1) * 64 * depth),
                     b = descriptor(shared.b[stage]);
#pragma unroll
      for (int i = 0; i < depth / 16; ++i)
        multiply(d, a + 2 * i, b + 2 * i);  // 16 elements are 32 bytes
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");  // the step before is done
      if (begin > 0 && thread % 128 == 0) arrive(&shared.empty[(step - 1) % stages]);
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (thread % 128 == 0) arrive(&shared.empty[(step - 1) % stages]);
    // Lane l of a warp has columns 2 (l % 4) and 2 (l % 4) + 1 of each 8, in rows l / 4 and l / 4 +
    // 8 of the warp's 16.
    const int row =
        tile % rows * tile_m + (group - 1) * 64 + thread % 128 / 32 * 16 + thread % 32 / 4;
    bf16* const to = c + static_cast<size_t>(row) * n + tile / rows * tile_n + thread % 4 * 2;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      *reinterpret_cast<__nv_bfloat162*>(to + 8 * i) =
          __floats2bfloat162_rn(d[4 * i], d[4 * i + 1]);
      *reinterpret_cast<__nv_bfloat162*>(to + static_cast<size_t>(8) * n + 8 * i) =
          __floats2bfloat162_rn(d[4 * i + 2], d[4 * i + 3]);
    }
  }
#endif
}

// Describes x (rows, k) to TMA: it copies tiles of tile_rows x 64 elements.
inline CUtensorMap tensor_map(const bf16* x, int rows, int k, int tile_rows) {
  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found;
  warmup::check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000,
                                                 cudaEnableDefault, &found));
  CUtensorMap map;
  const cuuint64_t extents[] = {static_cast<cuuint64_t>(k), static_cast<cuuint64_t>(rows)};
  const cuuint64_t row_bytes[] = {static_cast<cuuint64_t>(k) * sizeof(bf16)};
  const cuuint32_t box[] = {depth, static_cast<cuuint32_t>(tile_rows)}, steps[] = {1, 1};
  const CUresult status = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<bf16*>(x), extents, row_bytes, box,
      steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  warmup::check(status == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue);
  return map;
}

inline void run(const bf16* a, const bf16* b, bf16* c, int m, int n, int k) {
  const CUtensorMap of_a = tensor_map(a, m, k, tile_m), of_b = tensor_map(b, n, k, tile_n);
  int multiprocessors = 0;
  warmup::check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  warmup::check(
      cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  const int blocks = std::min(multiprocessors, m / tile_m * (n / tile_n));
  matmul<<<static_cast<unsigned>(blocks), threads, shared_bytes>>>(of_a, of_b, c, m, n, k);
}

}  // namespace level6
