// The graphs are those that cuDNN's documentation shows for its engines of flash attention ("Graph
// API", "Fused Flash Attention fprop" and "bprop"). An engine may take others and compute nonsense.
#include "core/cuda/attention/cudnn_attention.h"

#include "core/cuda/memory/allocator.h"

namespace whisker::cuda {
namespace {

using cudnn::Descriptor;
using Axes = std::array<int64_t, 4>;

// Identities of what has memory; what lies between operations counts on from the last.
constexpr int64_t q_id = 1, k_id = 2, v_id = 3, bias_id = 4, y_id = 5, log_sum_exp_id = 6;
constexpr int64_t dy_id = 7, dq_id = 8, dk_id = 9, dv_id = 10, scale_id = 11, one_id = 12;
constexpr int64_t delta_id = 13, dq_sum_id = 14, first_between = 15;

Axes transposed(const Axes& x) {
  return {x[0], x[1], x[3], x[2]};
}

Axes contiguous(const Axes& x) {
  return {x[1] * x[2] * x[3], x[2] * x[3], x[3], 1};
}

/// Axes of the tensors: (batch, heads, queries, keys), with head_size or 1 in place of the keys.
class Graph {
 public:
  Graph(const cudnn::Target& target, const AttentionGeometry& g)
      : g_(g), graph_(std::make_shared<cudnn::OperationGraph>(target)) {}

  void forward() {
    const Descriptor& s = scores();
    const Descriptor &largest = between(1), &shifted = between(g_.tokens);
    graph_->reduce(CUDNN_REDUCE_TENSOR_MAX, s, largest);
    graph_->pointwise(CUDNN_POINTWISE_SUB, s, largest, shifted);
    const Descriptor &exponentials = between(g_.tokens), &sum = between(1), &log = between(1);
    graph_->pointwise(CUDNN_POINTWISE_EXP, shifted, exponentials);
    graph_->reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, sum);
    graph_->pointwise(CUDNN_POINTWISE_LOG, sum, log);
    graph_->pointwise(CUDNN_POINTWISE_ADD, largest, log, of_rows(log_sum_exp_id));
    const Descriptor& p = between(g_.tokens, g_.dtype);
    graph_->pointwise(CUDNN_POINTWISE_DIV, exponentials, sum, p);
    graph_->matmul(p, in_qkv(v_id), in_y(y_id));
  }

  // ds = p (dp - delta) scale, where delta are the sums over rows of dy y.
  void backward(bool deterministic) {
    const Descriptor &dy = in_y(dy_id), &delta = of_rows(delta_id);
    const Descriptor &dy_y = between(g_.head_size), &sums = between(1);
    graph_->pointwise(CUDNN_POINTWISE_MUL, dy, in_y(y_id), dy_y);
    graph_->reduce(CUDNN_REDUCE_TENSOR_ADD, dy_y, sums);
    graph_->pointwise(CUDNN_POINTWISE_MUL, sums, number(one_id), delta);

    const Descriptor& s = scores();
    const Descriptor &shifted = between(g_.tokens), &p = between(g_.tokens);
    graph_->pointwise(CUDNN_POINTWISE_SUB, s, of_rows(log_sum_exp_id), shifted);
    graph_->pointwise(CUDNN_POINTWISE_EXP, shifted, p);
    graph_->matmul(transpose(p), dy, in_qkv(dv_id));

    const Descriptor &dp = between(g_.tokens), &centred = between(g_.tokens);
    graph_->matmul(dy, in_qkv(v_id, true), dp);
    graph_->pointwise(CUDNN_POINTWISE_SUB, dp, delta, centred);
    const Descriptor &product = between(g_.tokens), &ds = between(g_.tokens);
    graph_->pointwise(CUDNN_POINTWISE_MUL, centred, p, product);
    graph_->pointwise(CUDNN_POINTWISE_MUL, product, *scale_, ds);
    graph_->matmul(transpose(ds), *q_, in_qkv(dk_id));

    const Descriptor& k = tensor(next_++, heads(), qkv_strides(), DType::f32, true);
    graph_->reshape(*k_, k);
    if (deterministic) return graph_->matmul(ds, k, in_qkv(dq_id));
    // Blocks of keys add to f32 sums, in no fixed order.
    const Descriptor& dq_sum = tensor(dq_sum_id, heads(), contiguous(heads()), DType::f32);
    graph_->matmul(ds, k, dq_sum);
    graph_->pointwise(CUDNN_POINTWISE_IDENTITY, dq_sum, in_qkv(dq_id));
  }

  std::shared_ptr<const cudnn::OperationGraph> finalize() {
    return graph_->finalize() ? graph_ : nullptr;
  }

 private:
  // q k^T scale + bias.
  const Descriptor& scores() {
    q_ = &in_qkv(q_id);
    k_ = &in_qkv(k_id, true);
    scale_ = &number(scale_id);
    const Descriptor &product = between(g_.tokens), &scaled = between(g_.tokens);
    graph_->matmul(*q_, *k_, product);
    graph_->pointwise(CUDNN_POINTWISE_MUL, product, *scale_, scaled);
    if (!g_.bias) return scaled;
    const Axes extents{g_.bias_stride[0] == 0 ? 1 : g_.batch, g_.bias_stride[1] == 0 ? 1 : g_.heads,
                       g_.tokens, g_.tokens};
    const Descriptor& biased = between(g_.tokens);
    graph_->pointwise(CUDNN_POINTWISE_ADD, scaled,
                      tensor(bias_id, extents, contiguous(extents), g_.dtype), biased);
    return biased;
  }
  const Descriptor& transpose(const Descriptor& x) {
    const Axes extents{g_.batch, g_.heads, g_.tokens, g_.tokens};
    const Descriptor& y = tensor(next_++, extents, transposed(contiguous(extents)), g_.dtype, true);
    graph_->reshape(x, y);
    return y;
  }

  Axes heads() const { return {g_.batch, g_.heads, g_.tokens, g_.head_size}; }
  Axes qkv_strides() const { return {3 * g_.tokens * g_.width(), g_.head_size, 3 * g_.width(), 1}; }
  const Descriptor& in_qkv(int64_t id, bool of_columns = false) {
    if (!of_columns) return tensor(id, heads(), qkv_strides(), g_.dtype);
    return tensor(id, transposed(heads()), transposed(qkv_strides()), g_.dtype);
  }
  const Descriptor& in_y(int64_t id) {
    return tensor(id, heads(), {g_.tokens * g_.width(), g_.head_size, g_.width(), 1}, g_.dtype);
  }
  const Descriptor& of_rows(int64_t id) {
    const Axes extents{g_.batch, g_.heads, g_.tokens, 1};
    return tensor(id, extents, contiguous(extents), DType::f32);
  }
  const Descriptor& between(int64_t last, DType dtype = DType::f32) {
    const Axes extents{g_.batch, g_.heads, g_.tokens, last};
    return tensor(next_++, extents, contiguous(extents), dtype, true);
  }
  const Descriptor& number(int64_t id) { return graph_->tensor({.id = id, .by_value = true}); }
  const Descriptor& tensor(int64_t id, const Axes& extents, const Axes& strides, DType dtype,
                           bool is_virtual = false) {
    return graph_->tensor({.id = id,
                           .extents = extents,
                           .strides = strides,
                           .dtype = dtype,
                           .is_virtual = is_virtual});
  }

  const AttentionGeometry& g_;
  std::shared_ptr<cudnn::OperationGraph> graph_;
  int64_t next_ = first_between;
  const Descriptor *q_ = nullptr, *k_ = nullptr, *scale_ = nullptr;  // set by scores()
};

}  // namespace

bool is_for_cudnn(const AttentionGeometry& g, AttentionPass pass, const AttentionSite& site) {
  // cuDNN's dropout draws another mask than dropout().
  if (g.dropout > 0 || (g.dtype != DType::bf16 && g.dtype != DType::f16)) return false;
  if (site.capability < 80 || g.head_size % 8 != 0 || g.head_size > 128) return false;
  if (site.cudnn < least_cudnn_for_attention || g.tokens == 1) return false;
  if (g.bias && (g.bias_stride[2] == 0 || g.bias_stride[3] == 0)) return false;
  if (pass == AttentionPass::forward) return true;
  // Backward takes exp(-log_sum_exp) of keys behind the last one, which is infinite where all
  // scores are below -88, and gradients become NaN: before cuDNN 9.16 for most numbers of tokens,
  // on Hopper in later versions for these.
  if (g.tokens % 128 == 64) return false;
  return !site.deterministic || site.capability < 100;
}

std::unique_ptr<CudnnAttention> CudnnAttention::make(const cudnn::Target& target,
                                                     const AttentionGeometry& g, AttentionPass pass,
                                                     bool deterministic) {
  Graph made(target, g);
  pass == AttentionPass::forward ? made.forward() : made.backward(deterministic);
  const auto graph = made.finalize();
  if (!graph) return nullptr;
  for (const auto heuristic : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const cudnn::EngineChoice& engine : cudnn::proposals(*graph, heuristic)) {
      auto plan = cudnn::Plan::make(graph, engine);
      if (!plan) continue;
      return std::unique_ptr<CudnnAttention>(
          new CudnnAttention(g, pass, deterministic, std::move(plan)));
    }
  }
  return nullptr;
}

CudnnAttention::CudnnAttention(const AttentionGeometry& g, AttentionPass pass, bool deterministic,
                               std::unique_ptr<cudnn::Plan> plan)
    : g_(g), pass_(pass), plan_(std::move(plan)) {
  if (pass == AttentionPass::forward) return;
  const int64_t rows = g.batch * g.heads * g.tokens;
  delta_bytes_ = aligned_bytes(rows * 4);
  if (!deterministic) dq_bytes_ = aligned_bytes(rows * g.head_size * 4);
}

void CudnnAttention::run(const AttentionOperands& operands, void* workspace) const {
  const auto at = [](void* memory, int64_t bytes) { return static_cast<char*>(memory) + bytes; };
  const int64_t part = g_.width() * static_cast<int64_t>(size_of(g_.dtype));  // of q, k, v in a row
  float scale = static_cast<float>(g_.scale()), one = 1;
  std::vector<cudnn::Binding> bindings{{q_id, operands.qkv},
                                       {k_id, at(operands.qkv, part)},
                                       {v_id, at(operands.qkv, 2 * part)},
                                       {y_id, operands.y},
                                       {log_sum_exp_id, operands.log_sum_exp},
                                       {scale_id, &scale}};
  if (g_.bias) bindings.push_back({bias_id, operands.bias});
  if (pass_ == AttentionPass::backward) {
    void* const sums = at(workspace, delta_bytes_);
    bindings.insert(bindings.end(), {{dy_id, operands.dy},
                                     {dq_id, operands.dqkv},
                                     {dk_id, at(operands.dqkv, part)},
                                     {dv_id, at(operands.dqkv, 2 * part)},
                                     {one_id, &one},
                                     {delta_id, workspace}});
    if (dq_bytes_ > 0) bindings.push_back({dq_sum_id, sums});
  }
  plan_->execute(bindings, at(workspace, delta_bytes_ + dq_bytes_));
}

}  // namespace whisker::cuda
