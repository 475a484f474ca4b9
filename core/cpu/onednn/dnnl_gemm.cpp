// A gemm keeps its memory objects; a run only sets their addresses. Transposed operands are
// plain memory with exchanged strides, a shared one has a batch of 1.
#include "core/cpu/onednn/dnnl_gemm.h"

#include "core/cpu/onednn/dnnl_api.h"
#include "core/cpu/onednn/dnnl_versions.h"

namespace whisker::cpu {
namespace {

// (rows, columns), or behind a batch above 0; stored transposed when `transposed`.
DnnlDesc matrix(int64_t batch, int64_t rows, int64_t columns, bool transposed, DType dtype) {
  if (batch == 0)
    return {{rows, columns}, dnnl_type(dtype), transposed ? DnnlTag::ba : DnnlTag::ab};
  return {{batch, rows, columns}, dnnl_type(dtype), transposed ? DnnlTag::acb : DnnlTag::abc};
}

}  // namespace

struct DnnlGemm {
  explicit DnnlGemm(const dnnl::matmul::primitive_desc& pd)
      : primitive(pd),
        a(dnnl_unbound(pd.src_desc())),
        b(dnnl_unbound(pd.weights_desc())),
        y(dnnl_unbound(pd.dst_desc())),
        scratchpad(dnnl_unbound(pd.scratchpad_desc())),
        scratch_bytes(dnnl_bytes(pd.scratchpad_desc())),
        arguments{{DNNL_ARG_SRC, a},
                  {DNNL_ARG_WEIGHTS, b},
                  {DNNL_ARG_DST, y},
                  {DNNL_ARG_SCRATCHPAD, scratchpad}} {}

  dnnl::stream stream{dnnl_engine()};
  dnnl::matmul primitive;
  dnnl::memory a, b, y, scratchpad;
  int64_t scratch_bytes;
  std::unordered_map<int, dnnl::memory> arguments;
};

namespace {

/// Null when oneDNN has only its reference loops for the request.
std::shared_ptr<DnnlGemm> compiled(const GemmRequest& r) try {
  dnnl_check_memory();
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const MatmulGeometry& g = r.geometry;
  const int64_t batch = g.batch == 1 ? 0 : g.batch;
  const auto batch_of = [&](int64_t stride) { return batch > 0 && stride == 0 ? 1 : batch; };
  const auto pd = described<dnnl::matmul>(
      std::tuple(matrix(batch_of(g.a_batch_stride), g.m, g.k, g.transpose_a, DType::bf16),
                 matrix(batch_of(g.b_batch_stride), g.k, g.n, g.transpose_b, DType::bf16),
                 matrix(batch, g.m, g.n, false, r.y)),
      attr);
  if (dnnl_reference(pd)) return nullptr;
  return std::make_shared<DnnlGemm>(pd);
} catch (const dnnl::error&) {
  return nullptr;  // no such implementation
}

}  // namespace

DnnlGemm* GemmAlgorithms::find(const GemmRequest& request) {
  auto* choice = tuner_.find(request);
  if (!choice) choice = &tuner_.add(request, {.algorithm = compiled(request)});
  return choice->algorithm.get();
}

bool GemmAlgorithms::has(const GemmRequest& request) {
  const std::lock_guard lock(mutex_);
  return find(request) != nullptr;
}

int64_t GemmAlgorithms::scratch_bytes(const GemmRequest& request) {
  const std::lock_guard lock(mutex_);
  return find(request)->scratch_bytes;
}

void GemmAlgorithms::run(Allocator& allocator, const GemmRequest& request, const void* a,
                         const void* b, void* y) {
  const std::lock_guard lock(mutex_);
  DnnlGemm& gemm = *find(request);
  const Scratch<char> scratch(allocator, gemm.scratch_bytes);
  gemm.a.set_data_handle(const_cast<void*>(a));  // read only: the interface has no const
  gemm.b.set_data_handle(const_cast<void*>(b));
  gemm.y.set_data_handle(y);
  gemm.scratchpad.set_data_handle(scratch.data());
  gemm.primitive.execute(gemm.stream, gemm.arguments);
  gemm.stream.wait();
}

}  // namespace whisker::cpu
