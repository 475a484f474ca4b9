// Copies, waits and launches of a batch of images: see Note [Slots].
#include "core/cuda/image/image_pipeline.h"

#include "core/cuda/image/jpeg_decoder.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace whisker::cuda {
namespace {

void check_extents(const ImageBatch& batch, const Tensor& inputs) {
  constexpr int64_t most_images = 65535;  // of a launch's grid
  const int64_t pixels = inputs.extent(1) * inputs.extent(2);
  if (std::ssize(batch.records) > most_images || pixels > std::numeric_limits<int>::max()) {
    fail(ErrorKind::usage,
         "image pipeline: a batch may have {} images of {} pixels, got {} of {}. Set a smaller "
         "train.batch_size or data.image_size.",
         most_images, std::numeric_limits<int>::max(), batch.records.size(), pixels);
  }
  if (inputs.extent(3) != batch.channels) {
    fail(ErrorKind::usage, "image pipeline: expected inputs of {} channels, as the images, got {}.",
         batch.channels, inputs.shape().str());
  }
}

int contrast_steps(const ImageRecord& record) {
  return static_cast<int>(
      std::count_if(record.jitter, record.jitter + record.jitter_steps,
                    [](const JitterStep& step) { return step.kind == JitterKind::contrast; }));
}

// Writes one planned image per record, and returns what they need in all.
kernels::ImagePlan plan_images(std::span<const ImageRecord> records,
                               std::span<kernels::PlannedImage> planned) {
  kernels::ImagePlan plan;
  for (size_t i = 0; i < records.size(); ++i) {
    const ImageRecord& record = records[i];
    const ResizeAxis& columns = record.columns;
    const ResizeAxis& rows = record.rows;
    const Resampling across = resampling_of(columns, record.interpolation, record.antialias);
    const Resampling down = resampling_of(rows, record.interpolation, record.antialias);
    kernels::PlannedImage& p = planned[i];
    p = {.record = record,
         .between = plan.between_bytes,
         .column_taps = most_taps(across),
         .row_taps = most_taps(down),
         .column_end = taps_of(across, columns.count - 1).last,
         .first_row = taps_of(down, 0).first};
    p.row_count = taps_of(down, rows.count - 1).last - p.first_row;
    p.weights = plan.weights;
    p.row_weights = p.weights + int64_t{1 + p.column_taps} * columns.count;
    plan.weights = p.row_weights + int64_t{1 + p.row_taps} * rows.count;
    plan.between_bytes += int64_t{3} * p.row_count * columns.count;
    plan.samples = std::max({plan.samples, columns.count, rows.count});
    plan.columns = std::max(plan.columns, columns.count);
    plan.rows = std::max(plan.rows, p.row_count);
    plan.contrast_steps = std::max(plan.contrast_steps, contrast_steps(record));
  }
  return plan;
}

}  // namespace

CudaImagePipeline::CudaImagePipeline(Context& context, Allocator& allocator)
    : context_(context), allocator_(allocator) {
  check(cudaStreamCreateWithFlags(&placing_, cudaStreamNonBlocking), "making the placing stream");
}

CudaImagePipeline::~CudaImagePipeline() {
  context_.enter_to_free();
  cudaStreamSynchronize(context_.copy_stream());
  cudaStreamSynchronize(placing_);
  cudaStreamDestroy(placing_);
}

bool CudaImagePipeline::grow(std::optional<Scratch>& memory, int64_t bytes) {
  if (memory && bytes <= memory->bytes()) return false;
  memory.reset();
  memory.emplace(allocator_, bytes + bytes / 8, MemoryCategory::input);
  return true;
}

void CudaImagePipeline::run(const ImageBatch& batch, std::shared_ptr<const void> keeper,
                            const Tensor& inputs) {
  check_extents(batch, inputs);
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
  for (const ImagePiece& piece : batch.pieces) bytes = std::max(bytes, piece.at + piece.bytes);
  const int64_t planned_bytes = count * static_cast<int64_t>(sizeof(kernels::PlannedImage));
  if (count > slot.capacity) {
    void* pinned = nullptr;
    check(cudaHostAlloc(&pinned, static_cast<size_t>(planned_bytes), cudaHostAllocPortable),
          "allocating pinned memory");
    slot.planned.reset(static_cast<kernels::PlannedImage*>(pinned));
    slot.capacity = count;
  }
  const kernels::ImagePlan plan =
      plan_images(batch.records, {slot.planned.get(), static_cast<size_t>(count)});
  const auto height = static_cast<int>(inputs.extent(1));
  const auto width = static_cast<int>(inputs.extent(2));
  const int64_t weight_bytes = aligned_bytes(plan.weights * static_cast<int64_t>(sizeof(int32_t)));
  const int64_t pixel_bytes = aligned_bytes(int64_t{3} * count * height * width);
  const int64_t mean_bytes = count * most_jitter_steps * static_cast<int64_t>(sizeof(double));
  bool allocated = grow(slot.bytes, aligned_bytes(bytes) + planned_bytes);
  allocated = grow(slot.placed, pixel_bytes + mean_bytes) || allocated;
  allocated = grow(work_, weight_bytes + plan.between_bytes) || allocated;
  auto* const device_bytes = slot.bytes->as<uint8_t>();
  auto* const work = work_->as<uint8_t>();
  auto* const placed = slot.placed->as<uint8_t>();
  uint8_t* const device_planned = device_bytes + aligned_bytes(bytes);

  const cudaStream_t copying = context_.copy_stream();
  const cudaStream_t computing = context_.stream();
  slot.used.make_wait(copying);
  if (allocated || !batch.copies.empty()) {  // fresh memory is free once the compute stream is here
    allocated_.record(computing);
    allocated_.make_wait(copying);
    allocated_.make_wait(placing_);
  }
  slot.keeper = std::move(keeper);
  for (const ImagePiece& piece : batch.pieces) {
    check(cudaMemcpyAsync(device_bytes + piece.at, piece.host, static_cast<size_t>(piece.bytes),
                          cudaMemcpyHostToDevice, copying),
          "copying images to the GPU");
  }
  check(cudaMemcpyAsync(device_planned, slot.planned.get(), static_cast<size_t>(planned_bytes),
                        cudaMemcpyHostToDevice, copying),
        "copying image records to the GPU");
  slot.copied.record(copying);
  slot.copied.make_wait(placing_);
  // Before anything of this or a later batch is resampled. The memory they go to may have just been
  // allocated.
  for (const ImageCopy& copy : batch.copies) {
    check(cudaMemcpyAsync(copy.target, device_bytes + copy.at, static_cast<size_t>(copy.bytes),
                          cudaMemcpyDeviceToDevice, placing_),
          "keeping images on the GPU");
  }

  const kernels::ImageLaunch launch{
      .images = reinterpret_cast<const kernels::PlannedImage*>(device_planned),
      .bytes = device_bytes,
      .weights = reinterpret_cast<int32_t*>(work),
      .between = work + weight_bytes,
      .placed = placed,
      .means = reinterpret_cast<double*>(placed + pixel_bytes),
      .count = static_cast<int>(count),
      .height = height,
      .width = width,
      .gray = batch.channels == 1,
      .mix = pixel_mix(batch.mix),
      .plan = plan};
  kernels::place_images(placing_, launch);
  slot.placed_there.record(placing_);
  if (batch.decoded) static_cast<const CudaDecodedImages&>(*batch.decoded).mark_used(placing_);
  slot.placed_there.make_wait(computing);
  kernels::finish_images(computing, launch, inputs.dtype(), inputs.raw());
  slot.used.record(computing);
}

}  // namespace whisker::cuda
