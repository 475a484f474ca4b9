// A caching allocator of device memory: segments from the driver are split into blocks, a request
// gets the smallest free block that holds it, and a freed block merges with free neighbours. All
// work is ordered on one stream, so a freed block may be reused at once.
#pragma once

#include "core/cuda/memory/growing_segment.h"
#include "core/cuda/runtime/context.h"
#include "core/memory/memory.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace whisker {
class CapturedGraph;
}  // namespace whisker

namespace whisker::cuda {

// Note [Graph pool]
// A captured graph uses its addresses at every replay, so nothing else may use its memory. During a
// capture the capturing thread allocates from the graph pool, whose blocks are reused only within
// captures. Nothing in them outlives a replay, so all graphs of a device share one pool, and its
// peak is that of the largest. When the last graph is destroyed, its blocks move to the main pool.
// A main block that the capturing thread frees may be read by the graph, so it is withheld until
// then. Eager steps between replays (odd batches, validation) do not use the pool: a replay would
// overwrite what outlives the step, such as a metric or a cached choice.

// Note [Segments]
// Memory that a step allocates and frees (activations, workspaces) is in one segment of its pool
// that grows on demand, so that training reserves its peak and no more: with one segment per
// request without a free block, ResNet-18 (256 images of 224, bf16) reserved 4,314 MiB (501da7c);
// for today's figure see docs/internals/kernels.md, "Memory". Freeing the cache shortens the
// segment to its last used block. Longer-lived memory (parameters, moments, input) has segments of
// its own, as has every large request where the GPU cannot map memory.

// Note [Reserve]
// With MemoryOptions::preallocate_bytes one segment of that size is allocated at once and kept. A
// pool that would grow first takes a free block of the reserve, or extends its own last free block
// by the one behind it, and goes to the driver only when there is none. Only blocks of the same
// pool and kind merge, so with a reserve all large blocks have one kind.
class Allocator {
 public:
  explicit Allocator(Context& context) : context_(context) {}
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  /// 256-byte aligned device memory. Throws device, with need, free memory and holders, when
  /// neither limit nor GPU allow it even with an empty cache. Thread-safe.
  void* allocate(int64_t bytes, MemoryCategory category);
  /// `bytes` and `category` as they were allocated. Any thread may free.
  void deallocate(void* memory, int64_t bytes, MemoryCategory category) noexcept;
  /// Frees unused segments.
  void empty_cache();

  /// Throws device when the driver does not have preallocate_bytes.
  void set_options(const MemoryOptions& options);
  MemoryStats stats() const;
  void reset_peak();
  /// Bytes that only captured graphs may use.
  int64_t graph_pool_bytes() const;

  /// Held by every captured graph: keeps its memory in the graph pool. See Note [Graph pool].
  class GraphMemory {
   public:
    explicit GraphMemory(Allocator& allocator);
    ~GraphMemory();
    GraphMemory(const GraphMemory&) = delete;
    GraphMemory& operator=(const GraphMemory&) = delete;
    /// Runs work(), during which the calling thread allocates from the graph pool.
    void capture(const std::function<void()>& work);

   private:
    Allocator& allocator_;
  };

 private:
  enum class Pool : uint8_t { main, graph };
  // See Note [Segments]. Small blocks have small segments, so that they do not split large ones.
  enum class Kind : uint8_t { small, passing, lasting };
  using FreeList = std::set<std::pair<int64_t, char*>>;  // by size, then address
  struct Block {
    int64_t bytes = 0;
    char* segment = nullptr;  // first address of the driver's allocation
    Kind kind = Kind::small;
    Pool pool = Pool::main;
    bool free = false;
    bool withheld = false;           // see Note [Graph pool]
    FreeList::node_type entry = {};  // while not free: freeing allocates nothing
  };
  using Blocks = std::map<char*, Block>;

  FreeList& free_list(const Block& block) {
    return free_[static_cast<size_t>(block.pool)][static_cast<size_t>(block.kind)];
  }
  int64_t workspace_bytes() const {
    return stats_.by_category[static_cast<size_t>(MemoryCategory::workspace)];
  }
  bool capturing_here() const { return capturing_ && capturer_ == std::this_thread::get_id(); }
  Blocks::iterator take_free(Pool pool, Kind kind, int64_t bytes);
  void split(Blocks::iterator block, int64_t bytes);
  Blocks::iterator new_block(char* address, Block block);
  void mark_free(Blocks::iterator block) noexcept;
  void mark_used(Blocks::iterator block) noexcept;
  Blocks::iterator put_back(Blocks::iterator block) noexcept;
  void dissolve_graph_pool();
  // Where blocks come from and go back to: segments.cpp.
  Blocks::iterator grow(Pool pool, Kind kind, int64_t bytes, int64_t asked);
  Blocks::iterator from_reserve(Pool pool, Kind kind, int64_t bytes);
  Blocks::iterator from_driver(Pool pool, Kind kind, int64_t bytes);
  Blocks::iterator extend(GrowingSegment& segment, Pool pool, int64_t bytes);
  GrowingSegment* growing(Pool pool);
  bool fits(Kind kind, int64_t bytes) const;
  void take_reserve(int64_t bytes);
  void give_up_reserve();
  void release_segments();
  void shorten(GrowingSegment& segment);
  [[noreturn]] void exhausted(int64_t bytes) const;

  Context& context_;
  mutable std::mutex mutex_;  // guards all below
  Blocks blocks_;
  FreeList free_[2][3];  // [Pool][Kind]
  MemoryStats stats_;
  MemoryOptions options_;
  char* reserve_ = nullptr;                                  // its segment; see Note [Reserve]
  std::map<char*, std::unique_ptr<GrowingSegment>> mapped_;  // by their begin; see Note [Segments]
  GrowingSegment* growing_[2] = {};                          // [Pool], of mapped_
  bool maps_ = true;                                         // false once the GPU cannot map memory
  bool capturing_ = false;
  std::thread::id capturer_;
  int graphs_ = 0;
};

/// Memory of the current device from the driver (free it with cudaFree), or null when it has none
/// left; also while capturing.
char* allocated_by_driver(int64_t bytes);

/// The work that the calling thread enqueues in work(), to be replayed, with memory from the graph
/// pool (Note [Graph pool]). Throws what work() throws, and device when it cannot be captured.
std::unique_ptr<CapturedGraph> captured(Context& context, Allocator& allocator,
                                        const std::function<void()>& work);

/// `bytes` in whole units of the allocator's alignment: where another part of a block may begin.
constexpr int64_t aligned_bytes(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

/// Device memory for the length of a scope. Work enqueued on the compute stream within the scope
/// may use it: its next user is ordered after that.
class Scratch {
 public:
  Scratch(Allocator& allocator, int64_t bytes, MemoryCategory category = MemoryCategory::workspace)
      : allocator_(&allocator),
        bytes_(bytes),
        category_(category),
        data_(allocator.allocate(bytes, category)) {}
  ~Scratch() { allocator_->deallocate(data_, bytes_, category_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  int64_t bytes() const { return bytes_; }

 private:
  Allocator* allocator_;
  int64_t bytes_;
  MemoryCategory category_;
  void* data_;
};

}  // namespace whisker::cuda
