// GPUs that need not be here, as cuDNN describes them: enough to ask which engines it would have.
// Figures are those of the products' data sheets and of CUDA's table of compute capabilities.
#pragma once

#include "core/cuda/runtime/cudnn_descriptor.h"

#include <cstdint>
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace whisker::test {

struct DescribedGpu {
  const char* name;
  int capability;  // as core/nvidia/cuda_library.h counts it
  const char* device_name;
  int processors, threads, blocks;        // threads and blocks of one processor
  int64_t shared_bytes, shared_reserved;  // of a block
  int64_t l2_bytes, bytes;
  int processor_khz, memory_khz;

  constexpr bool has_bf16_and_tf32() const { return capability >= 80; }
  std::string json() const {
    return fmt::format(
        R"({{"deviceVer":{},"driverVer":13000,"maxGridSize":[2147483647,65535,65535],
"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":{},"warpSize":32,
"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":{},
"reservedSharedMemoryPerBlock":{},"maxRegistersPerSM":65536,"maxCtasPerSM":{},
"maxThreadsPerBlock":1024,"maxThreadsPerSM":{},"pciDeviceId":0,"isTccDriver":0,
"supportCoopLaunch":1,"smClockRateKHz":{},"memClockRateKHz":{},"l2CacheSize":{},
"deviceName":"{}","totalGlobalMem":{},"cudaDeviceId":0}})",
        10 * capability, processors, shared_bytes, shared_reserved, blocks, threads, processor_khz,
        memory_khz, l2_bytes, device_name, bytes);
  }
};

inline constexpr DescribedGpu described_gpus[] = {
    {"H200", 90, "NVIDIA H200", 132, 2048, 32, 232'448, 1024, 62'914'560, 150'109'880'320,
     1'980'000, 3'201'000},
    {"A100", 80, "NVIDIA A100", 108, 2048, 32, 166'912, 1024, 41'943'040, 85'899'345'920, 1'410'000,
     1'593'000},
};

// One of each further architecture that the backend is built for by default.
inline constexpr DescribedGpu further_gpus[] = {
    {"T4", 75, "NVIDIA Tesla T4", 40, 1024, 16, 65'536, 0, 4'194'304, 17'179'869'184, 1'590'000,
     5'001'000},
    {"A10", 86, "NVIDIA A10", 72, 1536, 16, 101'376, 1024, 6'291'456, 25'769'803'776, 1'695'000,
     6'251'000},
    {"RTX4090", 89, "NVIDIA GeForce RTX 4090", 128, 1536, 24, 101'376, 1024, 75'497'472,
     25'769'803'776, 2'520'000, 10'501'000},
    {"B200", 100, "NVIDIA B200", 148, 2048, 32, 232'448, 1024, 132'120'576, 193'273'528'320,
     1'965'000, 3'996'000},
    {"RTX5090", 120, "NVIDIA GeForce RTX 5090", 170, 1536, 24, 101'376, 1024, 100'663'296,
     34'359'738'368, 2'407'000, 14'001'000},
};

/// Asks cuDNN about a described GPU, with those of this machine hidden: on an H200, cuDNN 9.14 took
/// minutes over fused graphs for the A100 and ended in a segmentation fault over the B200.
class OnDescribedGpu : public ::testing::TestWithParam<DescribedGpu> {
 public:
  static void SetUpTestSuite() { ::setenv("CUDA_VISIBLE_DEVICES", "", 1); }

 protected:
  cuda::cudnn::Target target() const { return {.device_properties = &properties_}; }

 private:
  cuda::cudnn::Descriptor properties_ = cuda::cudnn::device_properties(GetParam().json());
};

}  // namespace whisker::test
