// A caching allocator of device memory: segments from the driver are cut into blocks, a request
// takes the smallest free block that holds it, and a freed block merges with free neighbours. All
// work is ordered on one stream, so a freed block may be handed out at once.
#pragma once

#include "core/cuda/gpu/context.h"
#include "core/cuda/memory/growing_segment.h"
#include "core/memory.h"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace whisker::cuda {

// Note [Graph pool]
// A captured graph uses its addresses at every replay, so what it takes must not serve anybody
// else. While a capture runs, the capturing thread allocates from the graph pool, whose blocks are
// reused only within captures; nothing outlives a replay in them, so all graphs of a device share
// one pool, and its peak is that of the largest. When the last graph goes, its blocks join the main
// pool. A block of the main pool that the capturing thread frees may be read by the graph: it is
// withheld until then, too. Eager steps between replays, odd batches and validation, do not use it:
// what of theirs outlives a step, a metric, a cached choice, would be overwritten by the next
// replay.

// Note [Segments]
// What a step takes and gives back, activations and workspaces, lies in one segment of its pool
// that grows as they need, so that training steps reserve what they hold at their peak: with a
// segment for each request that found no free block, ResNet-18 (256 pictures of 224, bf16) reserved
// 4,314 MiB (501da7c); docs/cuda.md, "Memory", has the figure since. Giving memory back shortens it
// to its last used block. What lasts longer would stand in the way of that: parameters, moments,
// input take segments of their own, and so does every large request where the GPU cannot map
// memory.

// Note [Reserve]
// With MemoryOptions::preallocate_bytes one segment of that size is taken at once and kept. Where a
// pool would grow by a segment from the driver, it then takes a free block of the reserve, or what
// its own free block lacks from the one behind it, and only when there is none goes to the driver.
// Blocks merge with neighbours of their own pool and kind only, so all large ones are of one kind
// while there is a reserve.
class Allocator {
 public:
  explicit Allocator(Context& context) : context_(context) {}
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  /// 256-byte aligned device memory. Throws device, with need, free and holders, when the limit or
  /// the GPU leaves none even after the cache was given back. Thread-safe.
  void* allocate(int64_t bytes, MemoryCategory category);
  /// `bytes` and `category` as they were allocated. Any thread may free.
  void deallocate(void* memory, int64_t bytes, MemoryCategory category) noexcept;
  /// Gives unused segments back to the driver.
  void empty_cache();

  /// Throws device when the driver does not have preallocate_bytes.
  void set_options(const MemoryOptions& options);
  MemoryStats stats() const;
  void reset_peak();
  /// Bytes that only captured graphs may use.
  int64_t graph_pool_bytes() const;

  /// The calling thread allocates from the graph pool. See Note [Graph pool].
  class CaptureScope {
   public:
    explicit CaptureScope(Allocator& allocator);
    ~CaptureScope();
    CaptureScope(const CaptureScope&) = delete;
    CaptureScope& operator=(const CaptureScope&) = delete;

   private:
    Allocator& allocator_;
  };
  /// Held by every captured graph: keeps the graph pool apart.
  class GraphMemory {
   public:
    explicit GraphMemory(Allocator& allocator);
    ~GraphMemory();
    GraphMemory(const GraphMemory&) = delete;
    GraphMemory& operator=(const GraphMemory&) = delete;

   private:
    Allocator& allocator_;
  };

 private:
  enum class Pool : uint8_t { main, graph };
  // See Note [Segments]. Small ones share small segments, lest they break up large ones.
  enum class Kind : uint8_t { small, passing, lasting };
  struct Block {
    int64_t bytes = 0;
    char* segment = nullptr;  // first address of the driver's allocation
    Kind kind = Kind::small;
    Pool pool = Pool::main;
    bool free = false;
  };
  using Blocks = std::map<char*, Block>;
  using FreeList = std::set<std::pair<int64_t, char*>>;  // by size, then address

  FreeList& free_list(const Block& block) {
    return free_[static_cast<size_t>(block.pool)][static_cast<size_t>(block.kind)];
  }
  int64_t workspace_bytes() const {
    return stats_.by_category[static_cast<size_t>(MemoryCategory::workspace)];
  }
  bool capturing_here() const { return capturing_ && capturer_ == std::this_thread::get_id(); }
  Blocks::iterator take_free(Pool pool, Kind kind, int64_t bytes);
  void split(Blocks::iterator block, int64_t bytes);
  void put_back(Blocks::iterator block);
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
  std::vector<char*> withheld_;
  MemoryStats stats_;
  MemoryOptions options_;
  char* reserve_ = nullptr;                                  // its segment; see Note [Reserve]
  std::map<char*, std::unique_ptr<GrowingSegment>> mapped_;  // by their begin; see Note [Segments]
  GrowingSegment* growing_[2] = {};                          // [Pool], of mapped_
  bool maps_ = true;                                         // until the GPU turns out not to
  bool capturing_ = false;
  std::thread::id capturer_;
  int graphs_ = 0;
};

/// Memory of the current device from the driver, or null when it has none left; also while
/// capturing. cudaFree gives it back.
char* allocated_by_driver(int64_t bytes);

/// Device memory for the length of a scope, counted as workspace. Work enqueued on the compute
/// stream within the scope may use it: whoever gets it next is ordered behind.
class Scratch {
 public:
  Scratch(Allocator& allocator, int64_t bytes)
      : allocator_(&allocator),
        bytes_(bytes),
        data_(allocator.allocate(bytes, MemoryCategory::workspace)) {}
  ~Scratch() { allocator_->deallocate(data_, bytes_, MemoryCategory::workspace); }
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
  void* data_;
};

}  // namespace whisker::cuda
