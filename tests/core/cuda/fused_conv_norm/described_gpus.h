// GPUs that need not be here, as cuDNN describes them: enough to ask which engines it would have.
// Figures are those of the products' data sheets and of CUDA's table of compute capabilities.
#pragma once

#include "core/cuda/runtime/cudnn_descriptor.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace whisker::test {

struct DescribedGpu {
  const char* name;
  int capability;  // as core/nvidia/cuda_library.h counts it
  const char* json;

  constexpr bool has_bf16_and_tf32() const { return capability >= 80; }
};

inline constexpr DescribedGpu described_gpus[] = {
    {"H200", 90, R"({"deviceVer":900,"driverVer":13000,"maxGridSize":[2147483647,65535,65535],
"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":132,"warpSize":32,
"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,
"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,
"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,
"supportCoopLaunch":1,"smClockRateKHz":1980000,"memClockRateKHz":3201000,"l2CacheSize":62914560,
"deviceName":"NVIDIA H200","totalGlobalMem":150109880320,"cudaDeviceId":0})"},
    {"A100", 80, R"({"deviceVer":800,"driverVer":13000,"maxGridSize":[2147483647,65535,65535],
"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":108,"warpSize":32,
"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":166912,
"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,
"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,
"supportCoopLaunch":1,"smClockRateKHz":1410000,"memClockRateKHz":1593000,"l2CacheSize":41943040,
"deviceName":"NVIDIA A100","totalGlobalMem":85899345920,"cudaDeviceId":0})"},
};

// One of each further architecture that the backend is built for by default.
inline constexpr DescribedGpu further_gpus[] = {
    {"T4", 75, R"({"deviceVer":750,"driverVer":13000,"maxGridSize":[2147483647,65535,65535],
"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":40,"warpSize":32,
"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":65536,
"reservedSharedMemoryPerBlock":0,"maxRegistersPerSM":65536,"maxCtasPerSM":16,
"maxThreadsPerBlock":1024,"maxThreadsPerSM":1024,"pciDeviceId":0,"isTccDriver":0,
"supportCoopLaunch":1,"smClockRateKHz":1590000,"memClockRateKHz":5001000,"l2CacheSize":4194304,
"deviceName":"NVIDIA Tesla T4","totalGlobalMem":17179869184,"cudaDeviceId":0})"},
    {"A10", 86, R"({"deviceVer":860,"driverVer":13000,"maxGridSize":[2147483647,65535,65535],
"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":72,"warpSize":32,
"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":101376,
"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":16,
"maxThreadsPerBlock":1024,"maxThreadsPerSM":1536,"pciDeviceId":0,"isTccDriver":0,
"supportCoopLaunch":1,"smClockRateKHz":1695000,"memClockRateKHz":6251000,"l2CacheSize":6291456,
"deviceName":"NVIDIA A10","totalGlobalMem":25769803776,"cudaDeviceId":0})"},
    {"RTX4090", 89, R"({"deviceVer":890,"driverVer":13000,"maxGridSize":[2147483647,65535,65535],
"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":128,"warpSize":32,
"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":101376,
"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":24,
"maxThreadsPerBlock":1024,"maxThreadsPerSM":1536,"pciDeviceId":0,"isTccDriver":0,
"supportCoopLaunch":1,"smClockRateKHz":2520000,"memClockRateKHz":10501000,"l2CacheSize":75497472,
"deviceName":"NVIDIA GeForce RTX 4090","totalGlobalMem":25769803776,"cudaDeviceId":0})"},
    {"B200", 100, R"({"deviceVer":1000,"driverVer":13000,"maxGridSize":[2147483647,65535,65535],
"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":148,"warpSize":32,
"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,
"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,
"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,
"supportCoopLaunch":1,"smClockRateKHz":1965000,"memClockRateKHz":3996000,"l2CacheSize":132120576,
"deviceName":"NVIDIA B200","totalGlobalMem":193273528320,"cudaDeviceId":0})"},
    {"RTX5090", 120, R"({"deviceVer":1200,"driverVer":13000,"maxGridSize":[2147483647,65535,65535],
"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":170,"warpSize":32,
"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":101376,
"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":24,
"maxThreadsPerBlock":1024,"maxThreadsPerSM":1536,"pciDeviceId":0,"isTccDriver":0,
"supportCoopLaunch":1,"smClockRateKHz":2407000,"memClockRateKHz":14001000,"l2CacheSize":100663296,
"deviceName":"NVIDIA GeForce RTX 5090","totalGlobalMem":34359738368,"cudaDeviceId":0})"},
};

/// Asks cuDNN about a described GPU, with those of this machine hidden: on an H200, cuDNN 9.14 took
/// minutes over fused graphs for the A100 and ended in a segmentation fault over the B200.
class OnDescribedGpu : public ::testing::TestWithParam<DescribedGpu> {
 public:
  static void SetUpTestSuite() { ::setenv("CUDA_VISIBLE_DEVICES", "", 1); }

 protected:
  cuda::cudnn::Target target() const { return {.device_properties = &properties_}; }

 private:
  cuda::cudnn::Descriptor properties_ = cuda::cudnn::device_properties(GetParam().json);
};

}  // namespace whisker::test
