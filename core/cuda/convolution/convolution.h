// One convolution pass as a question (ConvolutionRequest) and one way to compute it
// (ConvolutionAlgorithm): cuDNN's engines and our own kernels stand side by side behind it.
#pragma once

#include "core/geometry.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cuda_runtime_api.h>

namespace whisker::cuda {

/// True where the padding is the same on either side.
inline bool pads_evenly(const Conv2dGeometry& g) {
  return g.pad_top == g.pad_bottom && g.pad_left == g.pad_right;
}

enum class ConvolutionPass : uint8_t { forward, backward_input, backward_weights };
std::string_view name_of(ConvolutionPass pass);

/// What is computed. Two requests are alike when every member is.
///
/// Note [Chains]
/// A forward request with `sums` also adds up its result for the batch_norm behind it. A
/// `normalised` request reads relu(x scale + shift) in place of x, in a forward pass (which then
/// takes the sums, too) and in that of the weights. Its pass of the input's gradient goes on
/// through relu and reduces what the batch_norm's own gradient needs: x is then the gradient by the
/// normalised picture, and dx = dz_factor x + x_factor norm->x + offset remains to be done. There,
/// `added` says that a residual was added before relu and that the convolution is not the only
/// reader of what came out: the others' gradient is added to the convolution's before it goes
/// through relu, and x is the residual's gradient, too. None of them has bias or activation. Those
/// are cuDNN's patterns, made for f16.
///
/// Note [Epilogues]
/// A forward request applies the geometry's bias and activation and, when `pooled`, the maximum
/// over 2x2 windows with stride 2 after them. A request for the weights' gradient with a bias also
/// computes the bias' gradient; with an activation it takes dy and the activation's result, and
/// when pooled those of the pooled picture with the winners' marks (core/cuda/operators/pool2d.h).
/// With `both` it computes the input's gradient, too, from the same; alone that has no epilogue.
struct ConvolutionRequest {
  ConvolutionPass pass = ConvolutionPass::forward;
  Conv2dGeometry geometry = {};
  bool pooled = false;
  bool both = false;  ///< of the weights' gradient: the input's as well
  bool tf32 = false;  ///< f32 operands may be rounded to tf32
  bool sums = false;  ///< see Note [Chains], as are the next
  bool normalised = false;
  bool added = false;

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

/// The batch_norm of a normalised request; vectors have one element per channel of x.
struct NormOperands {
  const void* x = nullptr;         ///< what the batch_norm reads, shaped as x
  const void* scale = nullptr;     ///< as x
  const void* shift = nullptr;     ///< as x
  const void* residual = nullptr;  ///< where added, as x
  const void* others = nullptr;    ///< where added, as x: the gradient of other readers
  // The input's gradient: f32, read, then written.
  const void *mean = nullptr, *inverse_deviation = nullptr, *gamma = nullptr, *beta = nullptr;
  void *dgamma = nullptr, *dbeta = nullptr;
  void *dz_factor = nullptr, *x_factor = nullptr, *offset = nullptr;
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
  void* sums = nullptr;          ///< f32 (2, c_out), where the request has sums
  NormOperands norm = {};        ///< where it is normalised
  void* marks = nullptr;         ///< pooled: u8, shaped as y; null when no gradient will follow
  void* filter = nullptr;        ///< for both gradients: read, shaped as w
  void* dx = nullptr;            ///< for both gradients: written, shaped as x
};

/// Where a pass runs.
struct ConvolutionSite {
  cudaStream_t stream = nullptr;
  int multiprocessors = 1;
  int capability = 0;                       ///< as Context::capability
  size_t shared_bytes = 48 * 1024;          ///< of shared memory that a block may ask for
  size_t multiprocessor_bytes = 64 * 1024;  ///< of shared memory of a multiprocessor
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
