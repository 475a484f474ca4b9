// See Note [Padding that differs by side].
#include "core/cuda/convolution/cudnn/cudnn_convolution.h"
#include "core/cuda/runtime/check.h"

#include <cstddef>

namespace whisker::cuda {
namespace {

class PaddedConvolution final : public ConvolutionAlgorithm {
 public:
  PaddedConvolution(const ConvolutionRequest& request, ConvolutionAlgorithmPointer algorithm)
      : pass_(request.pass),
        small_(request.geometry),
        large_(padded_evenly(request).geometry),
        algorithm_(std::move(algorithm)) {}

  std::string name() const override { return algorithm_->name(); }
  int64_t workspace_bytes() const override { return image_bytes() + algorithm_->workspace_bytes(); }

  void run(const KernelSite& site, const ConvolutionOperands& operands,
           void* workspace) const override {
    ConvolutionOperands padded = operands;
    padded.x = workspace;
    const bool writes_x = pass_ == ConvolutionPass::backward_input;
    if (!writes_x) {
      check(cudaMemsetAsync(workspace, 0, static_cast<size_t>(image_bytes()), site.stream),
            "padding an image");
      copy(operands.x, small_, workspace, large_, site.stream);
    }
    algorithm_->run(site, padded, static_cast<std::byte*>(workspace) + image_bytes());
    if (writes_x) copy(workspace, large_, operands.x, small_, site.stream);
  }

 private:
  size_t row_bytes(const Conv2dGeometry& g) const {
    return static_cast<size_t>(g.w * g.c) * size_of(g.dtype);
  }
  /// The larger x, in whole units of the allocator's alignment.
  int64_t image_bytes() const {
    const int64_t bytes = large_.n * large_.h * static_cast<int64_t>(row_bytes(large_));
    return (bytes + 255) / 256 * 256;
  }
  /// What both images have: all of the smaller.
  void copy(void* from, const Conv2dGeometry& of_from, void* to, const Conv2dGeometry& of_to,
            cudaStream_t stream) const {
    const auto image = [&](void* data, const Conv2dGeometry& g) {
      return cudaPitchedPtr{.ptr = data,
                            .pitch = row_bytes(g),
                            .xsize = row_bytes(g),
                            .ysize = static_cast<size_t>(g.h)};
    };
    cudaMemcpy3DParms copied{};
    copied.srcPtr = image(from, of_from);
    copied.dstPtr = image(to, of_to);
    copied.extent = {.width = row_bytes(small_),
                     .height = static_cast<size_t>(small_.h),
                     .depth = static_cast<size_t>(small_.n)};
    copied.kind = cudaMemcpyDeviceToDevice;
    check(cudaMemcpy3DAsync(&copied, stream), "copying an image to or from a padded one");
  }

  const ConvolutionPass pass_;
  const Conv2dGeometry small_, large_;  // of x without and with the padding
  const ConvolutionAlgorithmPointer algorithm_;
};

}  // namespace

ConvolutionRequest padded_evenly(ConvolutionRequest request) {
  Conv2dGeometry& g = request.geometry;
  g.h += g.pad_bottom - g.pad_top;
  g.w += g.pad_right - g.pad_left;
  g.pad_bottom = g.pad_top;
  g.pad_right = g.pad_left;
  return request;
}

ConvolutionAlgorithmPointer pad_around(const ConvolutionRequest& request,
                                       ConvolutionAlgorithmPointer algorithm) {
  return std::make_unique<PaddedConvolution>(request, std::move(algorithm));
}

}  // namespace whisker::cuda
