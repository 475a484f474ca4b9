// Convolutions compiled by oneDNN, in f32 and bf16.
#pragma once

#include "core/backend/autotuner.h"
#include "core/backend/convolution_pass.h"
#include "core/cpu/layout/layout.h"
#include "core/cpu/support/allocator.h"

#include <cstdint>
#include <memory>
#include <string>

namespace whisker::cpu {

enum class ConvolutionAlgorithm : uint8_t { direct, winograd };
/// Its name in the autotune table.
constexpr const char* name_of(ConvolutionAlgorithm algorithm) {
  return algorithm == ConvolutionAlgorithm::winograd ? "winograd" : "direct";
}

/// One pass, whose bias a forward pass adds.
struct ConvolutionRequest {
  Conv2dGeometry geometry;
  ConvolutionPass pass = ConvolutionPass::forward;
  Layout x = Layout::plain;
  Layout y = Layout::plain;
  bool constant_weights = false;  // their reorder is no part of a run
  bool operator==(const ConvolutionRequest&) const = default;
  /// Text of every member: the key of the autotune table.
  std::string describe() const;
  size_t hash() const { return WordHash().add(geometry).add(pass, x, y, constant_weights).value(); }
};

/// Operands by role, all of the geometry's dtype; for a gradient pass x, w and y name the memory of
/// the gradient it computes (dx or dw) or reads (dy). Weights are (c_out, kernel_h,
/// kernel_w, c / groups).
struct ConvolutionOperands {
  void* x = nullptr;
  void* w = nullptr;
  void* bias = nullptr;
  void* y = nullptr;
  /// Forward, where w never changes: keeps it in the order that the convolution reads. Or null.
  std::shared_ptr<void>* packed = nullptr;
};

/// One oneDNN convolution with the reorders of its weights, compiled once. The forward pass applies
/// relu and leaky_relu.
class DnnlConvolution {
 public:
  /// Null when oneDNN has only its reference loops for the request.
  static std::unique_ptr<DnnlConvolution> make(const ConvolutionRequest& request,
                                               ConvolutionAlgorithm algorithm);
  ~DnnlConvolution();
  const char* name() const;
  int64_t scratch_bytes() const;
  /// Throws OutOfMemory, having done nothing, where scratch_bytes() do not fit.
  void run(Allocator& allocator, const ConvolutionOperands& operands);

 private:
  struct Impl;
  explicit DnnlConvolution(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace whisker::cpu
