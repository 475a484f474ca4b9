// What the backend makes of pictures: its pipeline, and a decoder where nvJPEG is.
#include "core/cuda/cuda_backend.h"
#include "core/cuda/pictures/jpeg_decoder.h"
#include "core/cuda/pictures/picture_pipeline.h"
#include "core/error.h"

namespace whisker::cuda {

std::unique_ptr<PicturePipeline> CudaBackend::make_picture_pipeline() {
  context_.enter();  // here, as its events are made before the body of its constructor
  return std::make_unique<CudaPicturePipeline>(context_, allocator_);
}

std::shared_ptr<JpegDecoder> CudaBackend::make_jpeg_decoder(std::string& why) {
  try {
    auto decoder = std::make_shared<CudaJpegDecoder>(context_, std::make_unique<Nvjpeg>());
    if (!decoder->description().empty()) return decoder;
    why = decoder->refusal();
    return nullptr;
  } catch (const Error& error) {
    why = error.what();
    return nullptr;
  }
}

}  // namespace whisker::cuda
