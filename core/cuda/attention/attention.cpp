// Attention by cuDNN; a pass is compiled once per geometry, which a capture does not allow: warm up
// first.
#include "core/backend/attention.h"

#include "core/backend/autotuner.h"
#include "core/cuda/attention/cudnn_attention.h"
#include "core/cuda/memory/aligned.h"
#include "core/cuda/memory/cuda_device.h"
#include "core/cuda/ops/launchers.h"
#include "core/cuda/runtime/add_time.h"

namespace whisker::cuda {
namespace {

/// What a pass is compiled for.
struct AttentionRequest {
  AttentionPass pass;
  DType dtype;
  int64_t batch, tokens, heads, head_size;
  bool bias;
  std::array<int64_t, 4> bias_stride;
  bool deterministic;
  bool operator==(const AttentionRequest&) const = default;
  size_t hash() const {
    const auto [n, h, q, k] = bias_stride;
    return WordHash()
        .add(pass, dtype, batch, tokens, heads, head_size, bias, n, h, q, k, deterministic)
        .value();
  }
};

class Attention final : public AttentionKernels, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  bool fuses(const AttentionGeometry& g, bool backward) override {
    return compiled(g, AttentionPass::forward) &&
           (!backward || compiled(g, AttentionPass::backward));
  }

  // What cuDNN has does not depend on the batch. A prediction after a step compiles nothing, which
  // could fail where memory has run out.
  bool fuses_some_batch(const AttentionGeometry& g, bool backward) override {
    const auto has = [&](AttentionPass pass) {
      const auto* const known = passes_.find(request_of(g, pass, any_batch));
      return (known ? known->algorithm.get() : compiled(g, pass)) != nullptr;
    };
    return has(AttentionPass::forward) && (!backward || has(AttentionPass::backward));
  }

  void attention(const AttentionGeometry& g, const AttentionInputs& in,
                 const AttentionOutputs& out) override {
    context_.enter();
    const AlignedInput qkv(context_, allocator_, in.qkv);
    const Scratch bias(allocator_, in.bias.defined() ? in.bias.bytes() : 0);
    move_near_zero(g, in.bias, bias.data());
    run(g, AttentionPass::forward,
        {.qkv = qkv.data(),
         .bias = bias.data(),
         .y = out.y.raw(),
         .log_sum_exp = out.log_sum_exp.raw()});
  }

  void attention_backward(const AttentionGeometry& g, const AttentionSaved& saved, const Tensor& dy,
                          const Tensor& dqkv) override {
    context_.enter();
    const AlignedInput qkv(context_, allocator_, saved.qkv);
    const Scratch bias(allocator_, saved.bias.defined() ? saved.bias.bytes() : 0);
    move_near_zero(g, saved.bias, bias.data());
    const AlignedInput gradient(context_, allocator_, dy);
    AlignedOutput result(context_, allocator_, dqkv);
    run(g, AttentionPass::backward,
        {.qkv = qkv.data(),
         .bias = bias.data(),
         .y = saved.y.raw(),
         .log_sum_exp = saved.log_sum_exp.raw(),
         .dy = gradient.data(),
         .dqkv = result.data()});
    result.finish();
  }

 private:
  // cuDNN keeps log(sum(exp(score))) of a row as one f32, which a mask of -1e9 over all keys rounds
  // to -1e9: backward's probabilities would be too large by the number of keys. Its engines have a
  // bias for every key.
  void move_near_zero(const AttentionGeometry& g, const Tensor& bias, void* to) {
    if (!bias.defined()) return;
    kernels::rows_near_zero(context_.stream(), bias.dtype(), bias.count() / g.tokens, g.tokens,
                            bias.raw(), to);
  }

  static constexpr int64_t any_batch = 0;  // what was compiled last
  AttentionRequest request_of(const AttentionGeometry& g, AttentionPass pass, int64_t batch) const {
    return {pass,     g.dtype,       batch,
            g.tokens, g.heads,       g.head_size,
            g.bias,   g.bias_stride, options_.deterministic};
  }

  /// Null where cuDNN has none.
  const CudnnAttention* compiled(const AttentionGeometry& g, AttentionPass pass) {
    const AttentionSite site{.capability = context_.capability(),
                             .cudnn = cudnnGetVersion(),
                             .deterministic = options_.deterministic};
    if (!is_for_cudnn(g, pass, site)) return nullptr;
    const AttentionRequest request = request_of(g, pass, g.batch);
    if (const auto* const known = passes_.find(request)) return known->algorithm.get();
    context_.enter();
    context_.open(CudaLibrary::convolutions);
    const AddTime timer(context_.start_times().plans);
    const auto& made =
        passes_.add(request, {.algorithm = CudnnAttention::make({.handle = context_.cudnn()}, g,
                                                                pass, site.deterministic)});
    return passes_.add(request_of(g, pass, any_batch), made).algorithm.get();
  }

  void run(const AttentionGeometry& g, AttentionPass of, const AttentionOperands& operands) {
    const CudnnAttention* const pass = compiled(g, of);
    if (!pass) fail(ErrorKind::internal, "attention: a pass that cuDNN does not have");
    const Scratch workspace(allocator_, pass->workspace_bytes());
    pass->run(operands, workspace.data());
  }

  Autotuner<AttentionRequest, CudnnAttention> passes_;
};

}  // namespace

std::shared_ptr<AttentionKernels> make_attention(CudaDevice& device) {
  return std::make_shared<Attention>(device);
}

}  // namespace whisker::cuda
