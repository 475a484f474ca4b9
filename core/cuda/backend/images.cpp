// What the backend makes of images: its pipeline, and a decoder where nvJPEG is.
#include "core/cuda/backend/cuda_backend.h"
#include "core/cuda/image/image_pipeline.h"
#include "core/cuda/image/jpeg_decoder.h"
#include "core/error.h"

namespace whisker::cuda {

std::unique_ptr<ImagePipeline> CudaBackend::make_image_pipeline() {
  device_.context.enter();  // here, as its events are made before the body of its constructor
  return std::make_unique<CudaImagePipeline>(device_.context, device_.allocator);
}

std::shared_ptr<JpegDecoder> CudaBackend::make_jpeg_decoder(std::string& why) {
  try {
    device_.context.enter();
    return std::make_shared<CudaJpegDecoder>(device_.context);
  } catch (const Error& error) {
    why = error.what();
    return nullptr;
  }
}

}  // namespace whisker::cuda
