#include "core/communicator/mpi.h"

#include "core/error.h"
#include "core/work_progress.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>

#include <dlfcn.h>

namespace whisker {
namespace {

using Handle = void*;  // MPI_Comm, MPI_Datatype, MPI_Op: addresses of Open MPI's variables

struct Library {
  Library() {
    // Global: Open MPI's plug-ins look up their symbols in it.
    library = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
      fail(ErrorKind::device,
           "mpirun started this program, but Open MPI cannot be opened ({}). Install the packages "
           "libopenmpi3 and openmpi-bin.",
           dlerror());
    }
    find("MPI_Init_thread", init);
    find("MPI_Finalize", finalize);
    find("MPI_Allreduce", all_reduce);
    find("MPI_Bcast", broadcast);
    find("MPI_Allgather", all_gather);
    find("MPI_Allgatherv", all_gather_v);
    find("MPI_Get_library_version", get_version);
    world = symbol("ompi_mpi_comm_world");
    byte = symbol("ompi_mpi_byte");
    int32 = symbol("ompi_mpi_int");
    f32 = symbol("ompi_mpi_float");
    f64 = symbol("ompi_mpi_double");
    sum = symbol("ompi_mpi_op_sum");
    min = symbol("ompi_mpi_op_min");
    // One thread calls MPI, beside others that do not (MPI_THREAD_SERIALIZED: not always the same).
    constexpr int serialized = 2;
    int provided = 0;
    init(nullptr, nullptr, serialized, &provided);
  }

  void* symbol(const char* name) const {
    void* const found = dlsym(library, name);
    if (!found) {
      fail(ErrorKind::device, "libmpi.so.40 lacks {}: it is not Open MPI 4. Install libopenmpi3.",
           name);
    }
    return found;
  }
  template <class Function>
  void find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(symbol(name));
  }

  // Unless told otherwise, MPI ends all ranks when a call fails: results need no check.
  int (*init)(int* argc, char*** argv, int required, int* provided) = nullptr;
  int (*finalize)() = nullptr;
  int (*all_reduce)(const void* from, void* to, int count, Handle type, Handle op,
                    Handle comm) = nullptr;
  int (*broadcast)(void* data, int count, Handle type, int root, Handle comm) = nullptr;
  int (*all_gather)(const void* from, int count, Handle type, void* to, int to_count,
                    Handle to_type, Handle comm) = nullptr;
  int (*all_gather_v)(const void* from, int count, Handle type, void* to, const int* counts,
                      const int* offsets, Handle to_type, Handle comm) = nullptr;
  int (*get_version)(char* text, int* length) = nullptr;
  void* library = nullptr;
  Handle world, byte, int32, f32, f64, sum, min;
};

Library& mpi() {
  static Library library;
  return library;
}

Handle in_place() {
  return reinterpret_cast<Handle>(1);  // MPI_IN_PLACE
}

constexpr int64_t most_elements = 1 << 24;  // of one call: counts are int

void all_reduce(void* data, int64_t count, Handle type, Handle op) {
  const auto width = static_cast<int64_t>(type == mpi().f64 ? sizeof(double) : sizeof(float));
  for (int64_t begin = 0; begin < count; begin += most_elements) {
    const auto part = static_cast<int>(std::min(most_elements, count - begin));
    const WaitScope waits(Waiting::ranks);
    mpi().all_reduce(in_place(), static_cast<char*>(data) + begin * width, part, type, op,
                     mpi().world);
  }
}

template <class T>
void widen(const Tensor& tensor, std::vector<float>& wide) {
  const std::span<const T> values = tensor.data<const T>();
  wide.resize(values.size());
  std::ranges::transform(values, wide.begin(), [](T value) { return static_cast<float>(value); });
}

template <class T>
void narrow(const std::vector<float>& wide, const Tensor& tensor) {
  std::ranges::transform(wide, tensor.data<T>().begin(), [](float value) { return T(value); });
}

}  // namespace

MpiGroup::MpiGroup(const RankEnvironment& environment) : RankGroup(environment) {
  mpi();
}

std::vector<std::string> MpiGroup::all_gather(std::string_view bytes) {
  const WaitScope waits(Waiting::ranks);
  constexpr size_t longest = std::numeric_limits<int>::max();
  const auto own = static_cast<int>(std::min(bytes.size(), longest));
  std::vector<int> sizes(static_cast<size_t>(world())), offsets(sizes.size());
  mpi().all_gather(&own, 1, mpi().int32, sizes.data(), 1, mpi().int32, mpi().world);
  if (std::accumulate(sizes.begin(), sizes.end(), size_t{0}) >= longest) {
    fail(ErrorKind::device, "MPI: the ranks exchange 2 GiB or more at a time. Use fewer ranks.");
  }
  std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), 0);
  std::string together(static_cast<size_t>(offsets.back() + sizes.back()), '\0');
  mpi().all_gather_v(bytes.data(), own, mpi().byte, together.data(), sizes.data(), offsets.data(),
                     mpi().byte, mpi().world);
  std::vector<std::string> parts;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto begin = static_cast<size_t>(offsets[i]);
    parts.push_back(together.substr(begin, static_cast<size_t>(sizes[i])));
  }
  return parts;
}

void MpiGroup::leave() {
  mpi().finalize();
}

std::string MpiCommunicator::description() const {
  std::string text(256, '\0');
  int length = 0;
  mpi().get_version(text.data(), &length);
  return text.substr(0, text.find(','));
}

void MpiCommunicator::all_reduce(const Tensor& tensor, ReduceKind kind) {
  const auto begin = std::chrono::steady_clock::now();
  reduce(tensor, kind);
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void MpiCommunicator::reduce(const Tensor& tensor, ReduceKind kind) {
  const Handle op = kind == ReduceKind::sum ? mpi().sum : mpi().min;
  switch (tensor.dtype()) {
    case DType::f32:
      return whisker::all_reduce(tensor.raw(), tensor.count(), mpi().f32, op);
    case DType::f64:
      return whisker::all_reduce(tensor.raw(), tensor.count(), mpi().f64, op);
    case DType::i32:
      return whisker::all_reduce(tensor.raw(), tensor.count(), mpi().int32, op);
    case DType::bf16:
      widen<bf16_t>(tensor, wide_);
      whisker::all_reduce(wide_.data(), tensor.count(), mpi().f32, op);
      return narrow<bf16_t>(wide_, tensor);
    case DType::f16:
      widen<f16_t>(tensor, wide_);
      whisker::all_reduce(wide_.data(), tensor.count(), mpi().f32, op);
      return narrow<f16_t>(wide_, tensor);
    default:
      fail(ErrorKind::internal, "all_reduce: not of {}", tensor.dtype());
  }
}

void MpiCommunicator::all_gather(const Tensor& own, const Tensor& all) {
  const WaitScope waits(Waiting::ranks);
  const auto bytes = static_cast<int>(own.bytes());
  mpi().all_gather(own.raw(), bytes, mpi().byte, all.raw(), bytes, mpi().byte, mpi().world);
}

void MpiCommunicator::broadcast(const Tensor& tensor) {
  for (int64_t begin = 0; begin < tensor.bytes(); begin += most_elements) {
    const auto part = static_cast<int>(std::min(most_elements, tensor.bytes() - begin));
    const WaitScope waits(Waiting::ranks);
    mpi().broadcast(static_cast<char*>(tensor.raw()) + begin, part, mpi().byte, 0, mpi().world);
  }
}

}  // namespace whisker
