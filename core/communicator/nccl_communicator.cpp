#include "core/communicator/nccl_communicator.h"

#include "core/backend/backend.h"
#include "core/work_progress.h"

#include <chrono>
#include <exception>
#include <thread>

namespace whisker {
namespace {

Nccl::Type type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return Nccl::f32;
    case DType::f64:
      return Nccl::f64;
    case DType::f16:
      return Nccl::f16;
    case DType::bf16:
      return Nccl::bf16;
    case DType::i32:
      return Nccl::i32;
    default:
      fail(ErrorKind::internal, "all_reduce: not of {}", dtype);
  }
}

}  // namespace

NcclCommunicator::NcclCommunicator(std::shared_ptr<RankGroup> ranks, Device device)
    : Communicator(std::move(ranks)),
      compute_stream_(cuda_stream(device)),
      side_(make_side_stream(device)),
      stream_(compute_stream_) {
  backend_of(device).synchronize();  // makes the device the thread's current one
  Nccl::Id id = {};
  if (rank() == 0) id = nccl_.make_id();
  id = group().gather(id)[0];
  {
    const WaitScope starts(Waiting::start);
    communicator_ = nccl_.join(id, rank(), world());
  }
  group().watch_collectives(this);
}

// In order only when nothing failed: that waits for collectives, whose ranks may be gone.
NcclCommunicator::~NcclCommunicator() {
  group().watch_collectives(nullptr);
  if (aborted_) return;
  if (std::uncaught_exceptions() > 0) {
    nccl_.abort(communicator_);
    return;
  }
  nccl_.destroy(communicator_);
}

std::string NcclCommunicator::description() const {
  return fmt::format("NCCL {}", nccl_.version());
}

void NcclCommunicator::all_reduce(const Tensor& tensor, ReduceKind kind) {
  nccl_.all_reduce(tensor.raw(), tensor.count(), type_of(tensor.dtype()),
                   kind == ReduceKind::sum ? Nccl::sum : Nccl::min, communicator(), stream_);
}

void NcclCommunicator::broadcast(const Tensor& tensor) {
  nccl_.broadcast(tensor.raw(), tensor.bytes(), communicator(), stream_);
}

void NcclCommunicator::all_gather(const Tensor& own, const Tensor& all) {
  nccl_.all_gather(own.raw(), all.raw(), own.bytes(), communicator(), stream_);
}

void NcclCommunicator::begin_beside() {
  side_->fork();
  stream_ = side_->stream();
}

std::shared_ptr<void> NcclCommunicator::register_memory(const Tensor& tensor) {
  void* const made = nccl_.register_memory(communicator(), tensor.raw(), tensor.bytes());
  if (!made) return nullptr;
  return {made, [this](void* handle) {
            const bool failed = aborted_ || std::uncaught_exceptions() > 0;
            if (!failed) nccl_.deregister_memory(communicator_, handle);
          }};
}

// Once it is aborted the watch ends the process at any moment.
void* NcclCommunicator::communicator() const {
  while (aborted_) std::this_thread::sleep_for(std::chrono::seconds(1));
  return communicator_;
}

std::string NcclCommunicator::error() {
  if (aborted_) return "";
  const std::string error = nccl_.asynchronous_error(communicator_);
  return error.empty()
             ? error
             : fmt::format("lost another rank or a link to it: {}: {}", description(), error);
}

void NcclCommunicator::abort() {
  aborted_ = true;
  nccl_.abort(communicator_);
}

}  // namespace whisker
