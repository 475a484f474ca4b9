// Attention by cuDNN's engines of flash attention (Dao et al. 2022, "FlashAttention"): of the
// scores only tiles exist.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/cudnn/cudnn_graph.h"

namespace whisker::cuda {

enum class AttentionPass : uint8_t { forward, backward };

/// What a pass is chosen by, besides the geometry.
struct AttentionSite {
  int capability = 0;  ///< as Context::capability
  size_t cudnn = 0;    ///< as cudnnGetVersion() counts
  bool deterministic = false;
};

/// A version as cudnnGetVersion() counts. Earlier ones make NaN of low scores in backward.
inline constexpr size_t least_cudnn_for_attention = 91600;

/// True where cuDNN's engines are known to be right. Engines may still be missing.
bool is_for_cudnn(const AttentionGeometry& g, AttentionPass pass, const AttentionSite& site);

/// Shapes: core/backend/attention.h. Forward reads qkv and bias, writes y and log_sum_exp; backward
/// reads those and dy, writes dqkv.
struct AttentionOperands {
  void* qkv = nullptr;
  void* bias = nullptr;  ///< where the geometry has one
  void* y = nullptr;
  void* log_sum_exp = nullptr;
  void* dy = nullptr;
  void* dqkv = nullptr;
};

/// A compiled pass.
class CudnnAttention {
 public:
  /// The first engine that works of those that cuDNN's heuristics propose; null without one. A
  /// deterministic backward pass needs workspace of half the size of f32 scores.
  static std::unique_ptr<CudnnAttention> make(const cudnn::Target& target,
                                              const AttentionGeometry& g, AttentionPass pass,
                                              bool deterministic);

  int64_t workspace_bytes() const { return plan_->workspace_bytes() + delta_bytes_ + dq_bytes_; }
  /// Enqueues the pass on the stream of its target's handle; `workspace` has workspace_bytes().
  void run(const AttentionOperands& operands, void* workspace) const;

 private:
  CudnnAttention(const AttentionGeometry& g, AttentionPass pass, bool deterministic,
                 std::unique_ptr<cudnn::Plan> plan);

  AttentionGeometry g_;
  AttentionPass pass_;
  std::unique_ptr<cudnn::Plan> plan_;
  int64_t delta_bytes_ = 0, dq_bytes_ = 0;  // tensors of backward's graph beside the operands
};

}  // namespace whisker::cuda
