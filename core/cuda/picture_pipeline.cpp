// Copies, waits and launches of a batch of pictures: see Note [Slots].
#include "core/cuda/picture_pipeline.h"

#include "core/cuda/cuda_backend.h"
#include "core/cuda/jpeg_decoder.h"
#include "core/cuda/picture_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace whisker::cuda {
namespace {

void check_extents(const PictureBatch& batch, const Tensor& images) {
  constexpr int64_t most_pictures = 65535;  // of a launch's grid
  const int64_t pixels = images.extent(1) * images.extent(2);
  if (std::ssize(batch.records) > most_pictures || pixels > std::numeric_limits<int>::max()) {
    fail(ErrorKind::usage,
         "picture pipeline: a batch may have {} pictures of {} pixels, got {} of {}. Set a smaller "
         "train.batch_size or data.image_size.",
         most_pictures, std::numeric_limits<int>::max(), batch.records.size(), pixels);
  }
}

}  // namespace

CudaPicturePipeline::~CudaPicturePipeline() {
  // What fails here has failed before, and there is nobody to tell.
  cudaSetDevice(context_.device());
  cudaStreamSynchronize(context_.copy_stream());
  for (Slot& slot : slots_) free(slot);
}

void CudaPicturePipeline::free(Slot& slot) {
  allocator_.deallocate(slot.bytes, slot.byte_capacity, MemoryCategory::input);
  allocator_.deallocate(slot.device_planned,
                        slot.capacity * static_cast<int64_t>(sizeof(kernels::PlannedPicture)),
                        MemoryCategory::input);
  cudaFreeHost(slot.planned);
}

// Memory that grows leaves the old one to later work of the compute stream, which has waited for
// every copy into it; the copy stream waits for what the new memory was used for before.
void CudaPicturePipeline::make_room(Slot& slot, int64_t bytes, int64_t pictures) {
  constexpr auto planned_bytes = static_cast<int64_t>(sizeof(kernels::PlannedPicture));
  bool grown = false;
  if (bytes > slot.byte_capacity) {
    allocator_.deallocate(slot.bytes, std::exchange(slot.byte_capacity, 0), MemoryCategory::input);
    slot.bytes = nullptr;
    const int64_t capacity = bytes + bytes / 8;
    slot.bytes = allocator_.allocate(capacity, MemoryCategory::input);
    slot.byte_capacity = capacity;
    grown = true;
  }
  if (pictures > slot.capacity) {
    allocator_.deallocate(slot.device_planned, std::exchange(slot.capacity, 0) * planned_bytes,
                          MemoryCategory::input);
    slot.device_planned = nullptr;
    cudaFreeHost(std::exchange(slot.planned, nullptr));
    void* pinned = nullptr;
    check(cudaHostAlloc(&pinned, static_cast<size_t>(pictures * planned_bytes),
                        cudaHostAllocPortable),
          "allocating pinned memory");
    slot.planned = static_cast<kernels::PlannedPicture*>(pinned);
    slot.device_planned = static_cast<kernels::PlannedPicture*>(
        allocator_.allocate(pictures * planned_bytes, MemoryCategory::input));
    slot.capacity = pictures;
    grown = true;
  }
  if (!grown) return;
  slot.used.record(context_.stream());
}

void CudaPicturePipeline::run(const PictureBatch& batch, std::shared_ptr<const void> keeper,
                              const Tensor& images) {
  check_extents(batch, images);
  context_.enter();
  const auto count = std::ssize(batch.records);
  if (count == 0) return;
  Slot& slot = slots_[next_];
  Slot& other = slots_[1 - next_];
  next_ = 1 - next_;
  slot.copied.wait();
  slot.keeper.reset();
  if (other.keeper && other.copied.reached()) other.keeper.reset();

  int64_t bytes = 0;
  for (const PicturePiece& piece : batch.pieces) bytes = std::max(bytes, piece.at + piece.bytes);
  make_room(slot, bytes, count);
  const PicturePlan plan = plan_pictures(batch.records, {slot.planned, static_cast<size_t>(count)});

  const cudaStream_t copying = context_.copy_stream();
  const cudaStream_t computing = context_.stream();
  auto* const device_bytes = static_cast<uint8_t*>(slot.bytes);
  slot.used.make_wait(copying);
  slot.keeper = std::move(keeper);
  for (const PicturePiece& piece : batch.pieces) {
    check(cudaMemcpyAsync(device_bytes + piece.at, piece.host, static_cast<size_t>(piece.bytes),
                          cudaMemcpyHostToDevice, copying),
          "copying pictures to the GPU");
  }
  check(cudaMemcpyAsync(slot.device_planned, slot.planned,
                        static_cast<size_t>(count) * sizeof(kernels::PlannedPicture),
                        cudaMemcpyHostToDevice, copying),
        "copying picture records to the GPU");
  slot.copied.record(copying);
  slot.copied.make_wait(computing);

  for (const PictureCopy& copy : batch.copies) {
    check(cudaMemcpyAsync(copy.target, device_bytes + copy.at, static_cast<size_t>(copy.bytes),
                          cudaMemcpyDeviceToDevice, computing),
          "keeping pictures on the GPU");
  }
  const auto height = static_cast<int>(images.extent(1));
  const auto width = static_cast<int>(images.extent(2));
  const Scratch weights(allocator_, plan.weights * static_cast<int64_t>(sizeof(int32_t)));
  const Scratch between(allocator_, plan.between_bytes);
  const Scratch placed(allocator_, int64_t{3} * count * height * width);
  const Scratch means(allocator_, count * most_jitter_steps * static_cast<int64_t>(sizeof(double)));
  const kernels::PictureLaunch launch{.pictures = slot.device_planned,
                                      .bytes = device_bytes,
                                      .weights = weights.as<int32_t>(),
                                      .between = between.as<uint8_t>(),
                                      .placed = placed.as<uint8_t>(),
                                      .means = means.as<double>(),
                                      .count = static_cast<int>(count),
                                      .height = height,
                                      .width = width,
                                      .gray = batch.channels == 1,
                                      .most_samples = plan.most_samples,
                                      .most_columns = plan.most_columns,
                                      .most_rows = plan.most_rows,
                                      .contrast_steps = plan.contrast_steps,
                                      .mix = pixel_mix(batch.mix)};
  kernels::place_pictures(computing, launch);
  kernels::mean_grays(computing, launch);
  kernels::finish_pictures(computing, launch, images.dtype(), images.raw(),
                           static_cast<int>(images.extent(3)));
  slot.used.record(computing);
  if (batch.decoded) {
    static_cast<const CudaDecodedPictures&>(*batch.decoded).mark_used(computing);
  }
}

void* CudaBackend::allocate_pinned(int64_t bytes) {
  context_.enter();
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, static_cast<size_t>(bytes), cudaHostAllocPortable),
        "allocating pinned memory");
  return memory;
}

void CudaBackend::deallocate_pinned(void* memory, int64_t) {
  cudaFreeHost(memory);
}

std::unique_ptr<PicturePipeline> CudaBackend::make_picture_pipeline() {
  return std::make_unique<CudaPicturePipeline>(context_, allocator_);
}

}  // namespace whisker::cuda
