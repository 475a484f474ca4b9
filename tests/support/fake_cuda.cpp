// Stands in for libcuda.so.1 of a driver that does not start: cuInit fails, after
// WHISKER_FAKE_CUDA_SECONDS where that is set. With WHISKER_FAKE_CUDA_GPUS it starts and offers so
// many GPUs, none of which can be used: no other function is there. WHISKER_FAKE_CUDA_VERSION is
// the newest CUDA that it supports.
#include <chrono>
#include <cstdlib>
#include <thread>

namespace {

constexpr int success = 0, unknown = 999;

int number(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

int gpus() {
  return number("WHISKER_FAKE_CUDA_GPUS", 0);
}

}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) {
  *version = number("WHISKER_FAKE_CUDA_VERSION", 99000);  // newer than any toolkit
  return success;
}
int cuInit(unsigned) {
  if (const char* seconds = std::getenv("WHISKER_FAKE_CUDA_SECONDS")) {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::atof(seconds)));
  }
  return gpus() > 0 ? success : unknown;
}
int cuDeviceGetCount(int* count) {
  *count = gpus();
  return gpus() > 0 ? success : unknown;
}
int cuGetErrorString(int, const char** text) {
  *text = "broken on purpose";
  return success;
}

}  // extern "C"
