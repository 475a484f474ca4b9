// One convolution pass as a question (ConvolutionRequest) and one way to compute it
// (ConvolutionAlgorithm): cuDNN's engines and our own kernels stand side by side behind it.
#pragma once

#include "core/geometry.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

namespace whisker::cuda {

enum class ConvolutionPass : uint8_t { forward, backward_input, backward_weights };
std::string_view name_of(ConvolutionPass pass);

/// What is computed. Two requests are alike when every member is.
///
/// Note [Epilogues]
/// A forward request applies the geometry's bias and activation and, when `pooled`, the maximum
/// over 2x2 windows with stride 2 after them. A request for the weights' gradient with a bias also
/// computes the bias' gradient; with an activation it takes dy and the activation's result, and
/// when pooled those of the pooled picture with the winners' marks (core/cuda/pool2d.h). The
/// input's gradient has no epilogue.
struct ConvolutionRequest {
  ConvolutionPass pass = ConvolutionPass::forward;
  Conv2dGeometry geometry = {};
  bool pooled = false;
  bool tf32 = false;  ///< f32 operands may be rounded to tf32

  bool has_epilogue() const {
    return geometry.bias || geometry.activation.kind != Activation::none || pooled;
  }
  /// The same pass without its epilogue.
  ConvolutionRequest plain() const;
  bool operator==(const ConvolutionRequest&) const = default;

  /// The request in words, the same only for equal requests: the key of the plan table.
  std::string describe() const;
};

struct RequestHash {
  size_t operator()(const ConvolutionRequest& request) const;
};

/// Memory of one pass: x, w, b are read and y is written forwards; w and y are read and x is
/// written for the input's gradient; x and y are read and w is written for the weights'. All are
/// 16-byte aligned. Shapes: core/geometry.h.
struct ConvolutionOperands {
  void* x = nullptr;
  void* w = nullptr;
  void* b = nullptr;             ///< (c_out) or null; written in a weights' pass
  void* y = nullptr;             ///< the result, or its gradient
  const void* output = nullptr;  ///< weights' pass with an activation: its result, shaped as y
  void* marks = nullptr;         ///< pooled: u8, shaped as y; null when no gradient will follow
};

/// Where a pass runs.
struct ConvolutionSite {
  cudaStream_t stream = nullptr;
  int multiprocessors = 1;
};

class ConvolutionAlgorithm {
 public:
  virtual ~ConvolutionAlgorithm() = default;
  /// The plan table's word for it.
  virtual std::string name() const = 0;
  virtual int64_t workspace_bytes() const { return 0; }
  /// Enqueues the pass; `workspace` has workspace_bytes().
  virtual void run(const ConvolutionSite& site, const ConvolutionOperands& operands,
                   void* workspace) const = 0;
};
using ConvolutionAlgorithmPointer = std::unique_ptr<ConvolutionAlgorithm>;

}  // namespace whisker::cuda
