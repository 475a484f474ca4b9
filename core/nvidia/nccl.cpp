#include "core/nvidia/nccl.h"

#include "core/error.h"

#include <cstring>

#include <dlfcn.h>

namespace whisker {

Nccl::Nccl() {
  void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fail(ErrorKind::device,
         "several GPUs exchange gradients through NCCL, which cannot be opened ({}). Install the "
         "package libnccl2, or name the folder of libnccl.so.2 in LD_LIBRARY_PATH.",
         dlerror());
  }
  std::string missing;
  const auto find = [&]<class Function>(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    if (!function) missing = name;
  };
  find("ncclGetLastError", get_last_error_);
  find("ncclCommRegister", comm_register_);
  find("ncclCommDeregister", comm_deregister_);
  missing.clear();  // older libraries lack them
  find("ncclGetVersion", get_version_);
  find("ncclGetUniqueId", get_unique_id_);
  find("ncclCommInitRank", comm_init_rank_);
  find("ncclAllReduce", all_reduce_);
  find("ncclBroadcast", broadcast_);
  find("ncclAllGather", all_gather_);
  find("ncclGroupStart", group_start_);
  find("ncclGroupEnd", group_end_);
  find("ncclCommGetAsyncError", get_async_error_);
  find("ncclCommDestroy", comm_destroy_);
  find("ncclCommAbort", comm_abort_);
  find("ncclGetErrorString", get_error_string_);
  if (missing.empty()) return;
  fail(ErrorKind::device, "libnccl.so.2 lacks {}: it is too old. Install a newer libnccl2.",
       missing);
}

std::string Nccl::describe(int status, void* communicator) const {
  const std::string detail = get_last_error_ ? get_last_error_(communicator) : "";
  return get_error_string_(status) + (detail.empty() ? "" : ": " + detail);
}

void Nccl::check(int status, std::string_view doing) const {
  if (status == 0) return;
  fail(ErrorKind::device, "NCCL {}: {}: {}. Set NCCL_DEBUG=WARN for more.", version(), doing,
       describe(status, nullptr));
}

std::string Nccl::version() const {
  int version = 0;
  get_version_(&version);
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Nccl::Id Nccl::make_id() const {
  IdByValue id = {};
  check(get_unique_id_(&id), "making an id");
  Id copy;
  std::memcpy(copy.data(), id.bytes, copy.size());
  return copy;
}

void* Nccl::join(const Id& id, int rank, int world) const {
  IdByValue copy;
  std::memcpy(copy.bytes, id.data(), id.size());
  void* communicator = nullptr;
  check(comm_init_rank_(&communicator, world, copy, rank),
        fmt::format("connecting rank {} of {}", rank, world));
  return communicator;
}

void Nccl::all_reduce(void* data, int64_t count, Type type, Reduction reduction, void* communicator,
                      void* stream) const {
  check(all_reduce_(data, data, static_cast<size_t>(count), type, reduction, communicator, stream),
        "all-reduce");
}

void Nccl::broadcast(void* data, int64_t bytes, void* communicator, void* stream) const {
  check(broadcast_(data, data, static_cast<size_t>(bytes), u8, 0, communicator, stream),
        "broadcast");
}

void Nccl::all_gather(const void* from, void* to, int64_t bytes, void* communicator,
                      void* stream) const {
  check(all_gather_(from, to, static_cast<size_t>(bytes), u8, communicator, stream), "all-gather");
}

void Nccl::group_start() const {
  check(group_start_(), "beginning a group");
}

void Nccl::group_end() const {
  check(group_end_(), "a group of collectives");
}

void* Nccl::register_memory(void* communicator, void* data, int64_t bytes) const {
  void* handle = nullptr;
  if (!comm_register_ || !comm_deregister_) return nullptr;
  return comm_register_(communicator, data, static_cast<size_t>(bytes), &handle) == 0 ? handle
                                                                                      : nullptr;
}

void Nccl::deregister_memory(void* communicator, void* handle) const {
  comm_deregister_(communicator, handle);
}

std::string Nccl::asynchronous_error(void* communicator) const {
  constexpr int in_progress = 7;
  int status = 0;
  if (get_async_error_(communicator, &status) != 0 || status == 0 || status == in_progress) {
    return "";
  }
  return describe(status, communicator);
}

void Nccl::destroy(void* communicator) const {
  comm_destroy_(communicator);
}

void Nccl::abort(void* communicator) const {
  comm_abort_(communicator);
}

}  // namespace whisker
