#include "core/communicator/nccl_communicator.h"

#include "core/backend/backend.h"
#include "core/nvidia/cuda_library.h"

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
    : Communicator(std::move(ranks)), stream_(cuda_stream(device)) {
  backend_of(device).synchronize();  // makes the device the thread's current one
  Nccl::Id id = {};
  if (rank() == 0) id = nccl_.make_id();
  id = group().gather(id)[0];
  communicator_ = nccl_.join(id, rank(), world());
}

// Not destroyed in order: that would wait for ranks that may be gone.
NcclCommunicator::~NcclCommunicator() {
  nccl_.abort(communicator_);
}

std::string NcclCommunicator::description() const {
  return fmt::format("NCCL {}", nccl_.version());
}

void NcclCommunicator::all_reduce(const Tensor& tensor, ReduceKind kind) {
  nccl_.all_reduce(tensor.raw(), tensor.count(), type_of(tensor.dtype()),
                   kind == ReduceKind::sum ? Nccl::sum : Nccl::min, communicator_, stream_);
}

void NcclCommunicator::broadcast(const Tensor& tensor) {
  nccl_.broadcast(tensor.raw(), tensor.bytes(), communicator_, stream_);
}

}  // namespace whisker
