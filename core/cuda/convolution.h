// One convolution pass as a question (ConvolutionRequest) and one way to compute it
// (ConvolutionAlgorithm): cuDNN's engines and our own kernels stand side by side behind it.
#pragma once

#include "core/geometry.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <cudnn.h>

namespace whisker::cuda {

enum class ConvolutionPass : uint8_t { forward, backward_input, backward_weights };
std::string_view name_of(ConvolutionPass pass);

/// What is computed. In a forward pass the geometry's bias and activation are to be applied; in the
/// others they are cleared. Two requests are alike when every member is.
struct ConvolutionRequest {
  ConvolutionPass pass = ConvolutionPass::forward;
  Conv2dGeometry geometry = {};
  bool tf32 = false;  ///< f32 operands may be rounded to tf32
  bool operator==(const ConvolutionRequest&) const = default;

  /// The request in words, the same only for equal requests: the key of the plan table.
  std::string describe() const;
};

struct RequestHash {
  size_t operator()(const ConvolutionRequest& request) const;
};

/// Memory of one pass: x, w, b are read and y is written forwards; w and y are read and x is
/// written for the input's gradient; x and y are read and w is written for the weights'. All are
/// 16-byte aligned. Shapes: core/geometry.h; b is (c_out) or null.
struct ConvolutionOperands {
  void* x = nullptr;
  void* w = nullptr;
  void* b = nullptr;
  void* y = nullptr;
};

/// Where a pass runs.
struct ConvolutionSite {
  cudaStream_t stream = nullptr;
  cudnnHandle_t cudnn = nullptr;  ///< bound to `stream`
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
