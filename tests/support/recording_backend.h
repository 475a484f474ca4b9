// A backend that can capture, for tests without a GPU: it passes every call on to a host backend,
// or while capturing keeps it, with its arguments, for later. A replay sees what a GPU's graph
// would see: the tensors and scalars of the capture, and of what changed since only device memory.
#pragma once

#include "core/backend/host_device.h"
#include "core/error.h"
#include "tests/support/recorded_kernels.h"

#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace whisker::test {

class RecordingBackend final : public HostDevice {
 public:
  /// `device` has no private layouts: the reference.
  explicit RecordingBackend(Backend& device)
      : HostDevice(families_),
        device_(device),
        families_{
            .elementwise = std::make_shared<RecordedElementwise>(recorder_, device.elementwise()),
            .shape_index = std::make_shared<RecordedShapeIndex>(recorder_, device.shape_index()),
            .reduction = std::make_shared<RecordedReduction>(recorder_, device.reduction()),
            .gemm = std::make_shared<RecordedGemm>(recorder_, device.gemm()),
            .convolution = std::make_shared<RecordedConvolution>(recorder_, device.convolution()),
            .pooling = std::make_shared<RecordedPooling>(recorder_, device.pooling()),
            .normalization =
                std::make_shared<RecordedNormalization>(recorder_, device.normalization()),
            .recurrent = std::make_shared<RecordedRecurrent>(recorder_, device.recurrent()),
            .losses = std::make_shared<RecordedLosses>(recorder_, device.losses()),
            .training_step =
                std::make_shared<RecordedTrainingStep>(recorder_, device.training_step())} {}

  int captures() const { return captures_; }

  std::vector<BackendProperty> properties() const override { return device_.properties(); }
  void* allocate(int64_t bytes, MemoryCategory category) override {
    void* memory = device_.allocate(bytes, category);
    if (recording_) {
      recording_->blocks[memory] = {bytes, category};
      reserved_.insert(memory);
    }
    return memory;
  }
  void deallocate(void* memory, int64_t bytes, MemoryCategory category) override {
    if (!reserved_.contains(memory)) device_.deallocate(memory, bytes, category);
  }
  void* allocate_pinned(int64_t bytes) override { return device_.allocate_pinned(bytes); }
  void deallocate_pinned(void* memory, int64_t bytes) override {
    device_.deallocate_pinned(memory, bytes);
  }
  MemoryStats memory_stats() const override { return device_.memory_stats(); }
  void reset_peak() override { device_.reset_peak(); }
  void set_memory_options(const MemoryOptions& options) override {
    device_.set_memory_options(options);
  }
  void empty_cache() override { device_.empty_cache(); }
  void upload(const void* host, void* device, int64_t bytes) override {
    refuse("upload");
    device_.upload(host, device, bytes);
  }
  void download(const void* device, void* host, int64_t bytes) override {
    refuse("download");
    device_.download(device, host, bytes);
  }
  void copy(const void* source, void* target, int64_t bytes) override {
    recorder_.submit([=, this] { device_.copy(source, target, bytes); });
  }
  void synchronize() override { refuse("synchronize"); }

  std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) override {
    auto graph = std::make_unique<Graph>(*this);
    record_into(graph.get());
    try {
      work();
    } catch (...) {
      record_into(nullptr);
      throw;
    }
    record_into(nullptr);
    ++captures_;
    return graph;
  }

 private:
  class Graph final : public CapturedGraph {
   public:
    explicit Graph(RecordingBackend& owner) : owner_(owner) {}
    ~Graph() override {
      calls.clear();
      for (const auto& [memory, block] : blocks) {
        owner_.reserved_.erase(memory);
        owner_.device_.deallocate(memory, block.first, block.second);
      }
    }
    void replay() override {
      for (const auto& call : calls) call();
    }
    Calls calls;
    std::map<void*, std::pair<int64_t, MemoryCategory>> blocks;

   private:
    RecordingBackend& owner_;
  };

  void record_into(Graph* graph) {
    recording_ = graph;
    recorder_.calls = graph ? &graph->calls : nullptr;
  }
  void refuse(const char* what) const {
    if (recording_) fail(ErrorKind::device, "{}: not while capturing", what);
  }

  Backend& device_;
  CallRecorder recorder_;
  Graph* recording_ = nullptr;
  std::unordered_set<void*> reserved_;  // by graphs
  int captures_ = 0;
  KernelFamilies families_;
};

}  // namespace whisker::test
