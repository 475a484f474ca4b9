// oneDNN's engine, its properties on this machine, and its sgemm.
#include "core/cpu/onednn/dnnl_api.h"

#include "core/cpu/onednn/dnnl_versions.h"
#include "core/error.h"

#include <new>
#include <string>

#include <sys/mman.h>

namespace whisker::cpu {

const dnnl::engine& dnnl_engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

void dnnl_check_memory() {
  constexpr size_t enough = 16 << 20;
  void* const probe = ::mmap(nullptr, enough, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) throw std::bad_alloc();
  ::munmap(probe, enough);
}

void dnnl_gemm(const Gemm& g) {
  [[maybe_unused]] static const bool checked = (dnnl_check_memory(), true);  // its kernels stay
  const dnnl_status_t status = dnnl_sgemm(
      g.a.is_transposed ? 'T' : 'N', g.b.is_transposed ? 'T' : 'N', g.size.m, g.size.n, g.size.k,
      1.0f, g.a.data, g.a.stride, g.b.data, g.b.stride, g.c.beta, g.c.data, g.c.stride);
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
  if (status != dnnl_success) {
    fail(ErrorKind::internal, "oneDNN: sgemm failed with status {}", static_cast<int>(status));
  }
}

int dnnl_isa() {
  return static_cast<int>(dnnl_get_effective_cpu_isa());
}

namespace {

// An instruction set is a set of bits that includes those of its predecessors.
[[maybe_unused]] bool isa_has(dnnl_cpu_isa_t wanted) {
  const int bits = static_cast<int>(wanted);
  return (dnnl_isa() & bits) == bits;
}

}  // namespace

int dnnl_channel_block() {
#if defined(__x86_64__)
  static const int block = isa_has(dnnl_cpu_isa_avx512_core) ? 16
                           : isa_has(dnnl_cpu_isa_avx2)      ? 8
                                                             : 0;
  return block;
#else
  return 0;
#endif
}

bool dnnl_native_bf16() {
#if defined(__x86_64__)
  static const bool native = isa_has(dnnl_cpu_isa_avx512_core_bf16);
  return native;
#else
  return false;
#endif
}

const char* dnnl_version_text() {
  static const std::string text = [] {
    const dnnl_version_t* v = dnnl_version();
    return fmt::format("oneDNN {}.{}.{}", v->major, v->minor, v->patch);
  }();
  return text.c_str();
}

}  // namespace whisker::cpu
