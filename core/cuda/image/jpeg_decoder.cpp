// A batch: device memory, nvJPEG's call and the wait.
#include "core/cuda/image/jpeg_decoder.h"

#include "core/cuda/runtime/check.h"
#include "core/error.h"

#include <utility>
#include <vector>

namespace whisker::cuda {

CudaDecodedImages::CudaDecodedImages(std::shared_ptr<FreeList<Block>> pool, int64_t bytes)
    : pool_(std::move(pool)),
      block_(pool_->take([&](const Block& block) { return block.bytes >= bytes; })) {
  if (!block_) block_ = pool_->take();  // to be replaced
  if (!block_) block_ = std::make_unique<Block>();
  if (block_->bytes >= bytes) return;
  block_->used.wait();
  cudaFree(std::exchange(block_->memory, nullptr));
  block_->bytes = bytes + bytes / 8;
  void* memory = nullptr;
  check(cudaMalloc(&memory, static_cast<size_t>(block_->bytes)), "taking memory for images");
  block_->memory = static_cast<uint8_t*>(memory);
}

// What one batch at a time is decoded with.
struct CudaJpegDecoder::Lane {
  explicit Lane(Nvjpeg& opened) : library(opened), state(opened) {
    // nvJPEG's few kernels go before the blocks of the network's that wait for a multiprocessor:
    // behind them a batch would take as long as a step.
    int lowest = 0, highest = 0;
    check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "asking for stream priorities");
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest),
          "making a decoding stream");
  }
  ~Lane() {
    if (is_lost(stream)) library.abandon();
    cudaStreamDestroy(stream);
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  Nvjpeg& library;
  Nvjpeg::State state;
  cudaStream_t stream = nullptr;
  Event done;
};

CudaJpegDecoder::CudaJpegDecoder(Context& context) : context_(context) {}

CudaJpegDecoder::~CudaJpegDecoder() {
  context_.enter_to_free();
  if (is_lost(context_.copy_stream())) library_.abandon();
}

std::string CudaJpegDecoder::description() const {
  return fmt::format("nvJPEG {}, {}", library_.version(),
                     library_.hardware() ? "JPEG engine" : "multiprocessors");
}

bool CudaJpegDecoder::accepts(std::span<const uint8_t> file) const {
  context_.enter();
  return library_.accepts(file);
}

std::shared_ptr<const DecodedImages> CudaJpegDecoder::decode(std::span<const JpegImage> images,
                                                             int64_t bytes) {
  context_.enter();
  const auto decoded = std::make_shared<CudaDecodedImages>(memory_, bytes);
  std::vector<Nvjpeg::State::Item> items;
  for (const JpegImage& image : images) {
    items.push_back({.file = image.bytes,
                     .pixels = decoded->memory() + image.at,
                     .pitch = int64_t{3} * image.width,
                     .height = image.height,
                     .width = image.width});
  }
  std::unique_ptr<Lane> lane = lanes_.take();
  if (!lane) lane = std::make_unique<Lane>(library_);
  decoded->wait_until_free(lane->stream);
  const std::string why = lane->state.decode(items, lane->stream);
  lane->done.record(lane->stream);
  lane->done.wait();
  if (!why.empty()) fail(ErrorKind::device, "{}", why);  // and the lane goes: its state may be bad
  lanes_.give(std::move(lane));
  return decoded;
}

}  // namespace whisker::cuda
