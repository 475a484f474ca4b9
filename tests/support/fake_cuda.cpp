// Stands in for libcuda.so.1 of a driver that does not start: cuInit fails, after
// WHISKER_FAKE_CUDA_SECONDS where that is set.
#include <chrono>
#include <cstdlib>
#include <thread>

namespace {

constexpr int success = 0, unknown = 999;

}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) {
  *version = 99000;  // newer than any toolkit
  return success;
}
int cuInit(unsigned) {
  if (const char* seconds = std::getenv("WHISKER_FAKE_CUDA_SECONDS")) {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(seconds)));
  }
  return unknown;
}
int cuDeviceGetCount(int* count) {
  *count = 0;
  return unknown;
}
int cuGetErrorString(int, const char** text) {
  *text = "broken on purpose";
  return success;
}

}  // extern "C"
