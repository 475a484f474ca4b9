// NVIDIA's library of collectives, opened at run time and never linked. The prototypes follow the
// NCCL user guide, "NCCL API"; streams and device memory are plain pointers, so that no header of
// CUDA is needed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace whisker {

class Nccl {
 public:
  /// Opens libnccl.so.2. Throws device, naming the package, when it is missing or lacks a function.
  Nccl();
  /// Never closed: its threads may outlive any object.
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  /// "2.27.3".
  std::string version() const;

  using Id = std::array<char, 128>;  // ncclUniqueId
  /// ncclDataType_t
  enum Type : int { i32 = 2, u8 = 1, f16 = 6, f32 = 7, f64 = 8, bf16 = 9 };
  /// ncclRedOp_t
  enum Reduction : int { sum = 0, min = 3 };

  Id make_id() const;
  /// A rank's ncclComm_t on the thread's current GPU. Collective; throws device, as all others do.
  void* join(const Id& id, int rank, int world) const;
  void all_reduce(void* data, int64_t count, Type type, Reduction reduction, void* communicator,
                  void* stream) const;
  void broadcast(void* data, int64_t bytes, void* communicator, void* stream) const;
  /// `bytes` of every rank, by rank, into `to`.
  void all_gather(const void* from, void* to, int64_t bytes, void* communicator,
                  void* stream) const;
  void group_start() const;
  void group_end() const;
  /// Lets collectives read and write this memory without copies of their own, where the library
  /// and the links can. Null where they cannot: nothing else changes then.
  void* register_memory(void* communicator, void* data, int64_t bytes) const;
  void deregister_memory(void* communicator, void* handle) const;
  /// What went wrong since then, on another rank or a link; "" for nothing. From any thread.
  std::string asynchronous_error(void* communicator) const;
  /// Frees it once its collectives are done. Destroy the graphs that hold some before.
  void destroy(void* communicator) const;
  /// Frees it, and ends whatever of it is still running. From any thread; returns only when no
  /// graph holds its collectives any more.
  void abort(void* communicator) const;

 private:
  void check(int status, std::string_view doing) const;
  std::string describe(int status, void* communicator) const;

  struct IdByValue {
    char bytes[128];
  };
  int (*get_version_)(int* version) = nullptr;
  int (*get_unique_id_)(IdByValue* id) = nullptr;
  int (*comm_init_rank_)(void** communicator, int world, IdByValue id, int rank) = nullptr;
  int (*all_reduce_)(const void* from, void* to, size_t count, int type, int reduction,
                     void* communicator, void* stream) = nullptr;
  int (*broadcast_)(const void* from, void* to, size_t count, int type, int root,
                    void* communicator, void* stream) = nullptr;
  int (*all_gather_)(const void* from, void* to, size_t count, int type, void* communicator,
                     void* stream) = nullptr;
  int (*group_start_)() = nullptr;
  int (*group_end_)() = nullptr;
  int (*get_async_error_)(void* communicator, int* status) = nullptr;
  int (*comm_destroy_)(void* communicator) = nullptr;
  int (*comm_abort_)(void* communicator) = nullptr;
  const char* (*get_error_string_)(int status) = nullptr;
  const char* (*get_last_error_)(void* communicator) = nullptr;  // from 2.13
  int (*comm_register_)(void* communicator, void* data, size_t bytes,
                        void** handle) = nullptr;                       // from 2.19
  int (*comm_deregister_)(void* communicator, void* handle) = nullptr;  // from 2.19
};

}  // namespace whisker
