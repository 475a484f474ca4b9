// GPUs that need not be here, as cuDNN describes them: enough to ask which engines it would have.
#pragma once

namespace whisker::test {

struct DescribedGpu {
  const char* name;
  const char* json;
};

inline constexpr DescribedGpu described_gpus[] = {
    {"H200", R"({"deviceVer":900,"driverVer":13000,"maxGridSize":[2147483647,65535,65535],
"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":132,"warpSize":32,
"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,
"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,
"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,
"supportCoopLaunch":1,"smClockRateKHz":1980000,"memClockRateKHz":3201000,"l2CacheSize":62914560,
"deviceName":"NVIDIA H200","totalGlobalMem":150109880320,"cudaDeviceId":0})"},
    {"A100", R"({"deviceVer":800,"driverVer":13000,"maxGridSize":[2147483647,65535,65535],
"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":108,"warpSize":32,
"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":166912,
"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,
"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,
"supportCoopLaunch":1,"smClockRateKHz":1410000,"memClockRateKHz":1593000,"l2CacheSize":41943040,
"deviceName":"NVIDIA A100","totalGlobalMem":85899345920,"cudaDeviceId":0})"},
};

}  // namespace whisker::test
