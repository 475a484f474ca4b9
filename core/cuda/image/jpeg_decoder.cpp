// A batch: device memory, nvJPEG's call, turning, and the wait.
#include "core/cuda/image/jpeg_decoder.h"

#include "core/cuda/image/images.h"
#include "core/cuda/runtime/check.h"
#include "core/error.h"

#include <algorithm>
#include <utility>

namespace whisker::cuda {

DecodedMemory::~DecodedMemory() {
  // What fails here has failed before, and there is nobody to tell.
  for (const auto& block : free_) cudaFree(block->memory);
}

std::unique_ptr<DecodedMemory::Block> DecodedMemory::take(int64_t bytes) {
  std::unique_ptr<Block> block;
  {
    const std::lock_guard lock(mutex_);
    auto chosen = std::ranges::find_if(
        free_, [&](const std::unique_ptr<Block>& one) { return one->bytes >= bytes; });
    if (chosen == free_.end() && !free_.empty()) chosen = free_.end() - 1;  // to be replaced
    if (chosen != free_.end()) {
      block = std::move(*chosen);
      free_.erase(chosen);
    } else {
      free_.reserve(made_ + 1);
      ++made_;
    }
  }
  if (!block) block = std::make_unique<Block>();
  if (block->bytes >= bytes) return block;
  block->used.wait();  // until the memory is read no more
  cudaFree(block->memory);
  const int64_t wanted = bytes + bytes / 8;
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, static_cast<size_t>(wanted));
  block->memory = static_cast<uint8_t*>(memory);
  block->bytes = wanted;
  if (error == cudaSuccess) return block;
  if (error != cudaErrorMemoryAllocation) fail_cuda(error, "taking memory for decoded images");
  cudaGetLastError();  // that memory ran out is no reason to stop
  return nullptr;
}

void DecodedMemory::give(std::unique_ptr<Block> block) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(block));
}

struct CudaJpegDecoder::Lane {
  explicit Lane(const Nvjpeg::Handle& handle) : state(handle) {
    // nvJPEG's few kernels go before the blocks of the network's that wait for a multiprocessor:
    // behind them a batch would take as long as a step.
    int lowest = 0, highest = 0;
    check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "asking for stream priorities");
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest),
          "making a decoding stream");
  }
  ~Lane() { cudaStreamDestroy(stream); }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  Nvjpeg::State state;
  cudaStream_t stream = nullptr;
  Event done;
};

CudaJpegDecoder::CudaJpegDecoder(Context& context, std::unique_ptr<Nvjpeg> library)
    : context_(context), library_(std::move(library)) {}
CudaJpegDecoder::~CudaJpegDecoder() {
  context_.enter_to_free();
}

// Starts nvJPEG when it is first needed. Null when it does not start; refusal() says why.
const Nvjpeg::Handle* CudaJpegDecoder::handle() {
  context_.enter();
  const std::lock_guard lock(mutex_);
  if (!std::exchange(started_, true)) {
    try {
      handle_ = std::make_unique<Nvjpeg::Handle>(*library_);
    } catch (const Error& error) {
      refusal_ = error.what();
    }
  }
  return handle_.get();
}

std::string CudaJpegDecoder::description() {
  const Nvjpeg::Handle* const started = handle();
  if (!started) return "";
  return fmt::format("nvJPEG {}, {}", library_->version(),
                     started->hardware() ? "JPEG engine" : "multiprocessors");
}

bool CudaJpegDecoder::accepts(std::span<const uint8_t> file) {
  const Nvjpeg::Handle* const started = handle();
  return started && started->accepts(file);
}

std::string CudaJpegDecoder::refusal() const {
  const std::lock_guard lock(mutex_);
  return refusal_;
}

std::shared_ptr<const DecodedImages> CudaJpegDecoder::refuse(std::string why) {
  const std::lock_guard lock(mutex_);
  refusal_ = std::move(why);
  return nullptr;
}

std::unique_ptr<CudaJpegDecoder::Lane> CudaJpegDecoder::take_lane(const Nvjpeg::Handle& handle) {
  {
    const std::lock_guard lock(mutex_);
    if (!lanes_.empty()) {
      std::unique_ptr<Lane> lane = std::move(lanes_.back());
      lanes_.pop_back();
      return lane;
    }
  }
  return std::make_unique<Lane>(handle);
}

std::shared_ptr<const DecodedImages> CudaJpegDecoder::decode(std::span<const JpegImage> images,
                                                             int64_t bytes) {
  const Nvjpeg::Handle* const started = handle();
  if (!started) return nullptr;
  // Images to be turned are decoded behind all others, and turned to their place.
  std::vector<Nvjpeg::State::Item> items;
  std::vector<int64_t> stored_at;
  for (const JpegImage& image : images) {
    const bool turns = image.orientation > 1;
    stored_at.push_back(turns ? bytes : image.at);
    if (turns) bytes += int64_t{3} * image.height * image.width;
  }
  std::unique_ptr<DecodedMemory::Block> block = memory_->take(bytes);
  if (!block) return refuse("no memory left on the GPU");
  uint8_t* const base = block->memory;
  const auto decoded = std::make_shared<CudaDecodedImages>(memory_, std::move(block));
  for (size_t i = 0; i < images.size(); ++i) {
    items.push_back({.file = images[i].bytes,
                     .pixels = base + stored_at[i],
                     .pitch = int64_t{3} * images[i].width,
                     .height = images[i].height,
                     .width = images[i].width});
  }
  std::unique_ptr<Lane> lane;
  try {
    lane = take_lane(*started);
  } catch (const Error& error) {  // no memory left for another
    cudaGetLastError();
    return refuse(error.what());
  }
  decoded->wait_until_free(lane->stream);
  std::string why = lane->state.decode(items, lane->stream);
  for (size_t i = 0; i < images.size() && why.empty(); ++i) {
    const JpegImage& image = images[i];
    if (image.orientation <= 1) continue;
    kernels::turn_upright(lane->stream, base + stored_at[i], image.height, image.width,
                          image.orientation, base + image.at);
  }
  lane->done.record(lane->stream);
  lane->done.wait();
  if (!why.empty()) return refuse(std::move(why));  // and the lane goes: its state may be spoilt
  const std::lock_guard lock(mutex_);
  lanes_.push_back(std::move(lane));
  return decoded;
}

}  // namespace whisker::cuda
