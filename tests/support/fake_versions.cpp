// Stands in for libraries of other versions, under whatever name it is loaded: cuDNN of
// WHISKER_FAKE_CUDNN (by LD_PRELOAD, in front of the one that is linked), cuBLASLt of
// WHISKER_FAKE_CUBLASLT, NCCL of WHISKER_FAKE_NCCL.
#include <cstddef>
#include <cstdlib>

namespace {

int number(const char* variable) {
  const char* const text = std::getenv(variable);
  return text ? std::atoi(text) : 0;
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() {
  return static_cast<size_t>(number("WHISKER_FAKE_CUDNN"));
}
size_t cublasLtGetVersion() {
  return static_cast<size_t>(number("WHISKER_FAKE_CUBLASLT"));
}
int ncclGetVersion(int* version) {
  *version = number("WHISKER_FAKE_NCCL");
  return 0;
}

}  // extern "C"
