// oneDNN 2.6 (Debian 12) and 3 (Ubuntu 24.04).
#include "core/cpu/dnnl_api.h"

#include "core/error.h"

#include <oneapi/dnnl/dnnl.h>

namespace whisker::cpu {
namespace {

void check(dnnl_status_t status, const char* what) {
  if (status != dnnl_success) {
    fail(ErrorKind::internal, "oneDNN: {} failed with status {}", what, static_cast<int>(status));
  }
}

}  // namespace

void dnnl_gemm(const Gemm& g) {
  check(dnnl_sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, 1.0f, g.a,
                   g.lda, g.b, g.ldb, g.beta, g.c, g.ldc),
        "sgemm");
}

}  // namespace whisker::cpu
