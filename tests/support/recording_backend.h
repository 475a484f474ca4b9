// A backend that can capture, for tests without a GPU: it passes every call on to a host backend,
// or while capturing keeps it, with its arguments, for later. A replay sees what a GPU's graph
// would see: the tensors and scalars of the capture, and of what changed since only device memory.
#pragma once

#include "core/autograd/autograd.h"
#include "core/backend/backend.h"
#include "core/error.h"

#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace whisker::test {

class RecordingBackend final : public Backend {
 public:
  /// `device` has no private layouts: the reference.
  explicit RecordingBackend(Backend& device) : device_(device) {}

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
    submit([=, this] { device_.copy(source, target, bytes); });
  }
  void synchronize() override { refuse("synchronize"); }

  std::unique_ptr<CapturedGraph> capture(const std::function<void()>& work) override {
    auto graph = std::make_unique<Graph>(*this);
    recording_ = graph.get();
    try {
      work();
    } catch (...) {
      recording_ = nullptr;
      throw;
    }
    recording_ = nullptr;
    ++captures_;
    return graph;
  }

  void* allocate_pinned(int64_t bytes) override { return device_.allocate_pinned(bytes); }
  void deallocate_pinned(void* memory, int64_t bytes) override {
    device_.deallocate_pinned(memory, bytes);
  }
  std::unique_ptr<ImagePipeline> make_image_pipeline() override {
    return device_.make_image_pipeline();
  }

  void fill(double value, const Tensor& y) override {
    submit([=, this] { device_.fill(value, y); });
  }
  void cast(const Tensor& x, const Tensor& y) override {
    submit([=, this] { device_.cast(x, y); });
  }
  void unary(const UnarySpec& spec, const Tensor& x, const Tensor& y) override {
    submit([=, this] { device_.unary(spec, x, y); });
  }
  void binary(BinaryOp op, const BroadcastGeometry& g, const Tensor& a, const Tensor& b,
              const Tensor& y) override {
    submit([=, this] { device_.binary(op, g, a, b, y); });
  }
  void accumulate(const Tensor& term, const Tensor& sum) override {
    submit([=, this] { device_.accumulate(term, sum); });
  }
  void compare(CompareOp op, const BroadcastGeometry& g, const Tensor& a, const Tensor& b,
               const Tensor& y) override {
    submit([=, this] { device_.compare(op, g, a, b, y); });
  }
  void where(const Tensor& condition, const Tensor& a, const Tensor& b, const Tensor& y) override {
    submit([=, this] { device_.where(condition, a, b, y); });
  }
  void activation(ActivationSpec f, const Tensor& x, const Tensor& y) override {
    submit([=, this] { device_.activation(f, x, y); });
  }
  void activation_backward(ActivationSpec f, const Tensor& saved, const Tensor& dy,
                           const Tensor& dx) override {
    submit([=, this] { device_.activation_backward(f, saved, dy, dx); });
  }
  void activation_second(ActivationSpec f, const Tensor& saved, const Tensor& dy, const Tensor& v,
                         const Tensor& out) override {
    submit([=, this] { device_.activation_second(f, saved, dy, v, out); });
  }
  void dropout(double rate, const RandomKey& key, const Tensor& x, const Tensor& y) override {
    submit([=, this] { device_.dropout(rate, key, x, y); });
  }
  void strided_copy(const CopyGeometry& g, bool add, const Tensor& x, const Tensor& y) override {
    submit([=, this] { device_.strided_copy(g, add, x, y); });
  }
  void reduce(ReduceOp op, const ReduceGeometry& g, const Tensor& x, const Tensor& y) override {
    submit([=, this] { device_.reduce(op, g, x, y); });
  }
  void argmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) override {
    submit([=, this] { device_.argmax(g, x, y); });
  }
  void gather(const GatherGeometry& g, const Tensor& x, const Tensor& index,
              const Tensor& y) override {
    submit([=, this] { device_.gather(g, x, index, y); });
  }
  void gather_backward(const GatherGeometry& g, const Tensor& index, const Tensor& dy,
                       const Tensor& dx) override {
    submit([=, this] { device_.gather_backward(g, index, dy, dx); });
  }
  void embedding(const Tensor& table, const Tensor& index, const Tensor& y) override {
    submit([=, this] { device_.embedding(table, index, y); });
  }
  void embedding_backward(const Tensor& index, const Tensor& dy, const Tensor& dtable) override {
    submit([=, this] { device_.embedding_backward(index, dy, dtable); });
  }
  void one_hot(const Tensor& index, const Tensor& y) override {
    submit([=, this] { device_.one_hot(index, y); });
  }
  void matmul(const MatmulGeometry& g, const Tensor& a, const Tensor& b, const Tensor& y) override {
    submit([=, this] { device_.matmul(g, a, b, y); });
  }
  void linear(const LinearGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b,
              const Tensor& y) override {
    submit([=, this] { device_.linear(g, x, w, b, y); });
  }
  void linear_backward(const LinearGeometry& g, const Tensor& x, const Tensor& w, const Tensor& y,
                       const Tensor& dy, const Tensor& dx, const Tensor& dw,
                       const Tensor& db) override {
    submit([=, this] { device_.linear_backward(g, x, w, y, dy, dx, dw, db); });
  }
  void conv2d(const Conv2dGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b,
              const Tensor& y) override {
    submit([=, this] { device_.conv2d(g, x, w, b, y); });
  }
  void conv2d_backward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w, const Tensor& y,
                       const Tensor& dy, const Tensor& dx, const Tensor& dw,
                       const Tensor& db) override {
    submit([=, this] { device_.conv2d_backward(g, x, w, y, dy, dx, dw, db); });
  }
  int64_t pool2d_workspace_bytes(const Pool2dGeometry& g) override {
    return device_.pool2d_workspace_bytes(g);
  }
  void pool2d(const Pool2dGeometry& g, const Tensor& x, const Tensor& y,
              const Tensor& workspace) override {
    submit([=, this] { device_.pool2d(g, x, y, workspace); });
  }
  void pool2d_backward(const Pool2dGeometry& g, const Tensor& workspace, const Tensor& dy,
                       const Tensor& dx) override {
    submit([=, this] { device_.pool2d_backward(g, workspace, dy, dx); });
  }
  int64_t recurrent_reserve_bytes(const RecurrentGeometry& g) override {
    return device_.recurrent_reserve_bytes(g);
  }
  void recurrent(const RecurrentGeometry& g, const RecurrentInputs& in,
                 const RecurrentOutputs& out) override {
    submit([=, this] { device_.recurrent(g, in, out); });
  }
  void recurrent_backward(const RecurrentGeometry& g, const RecurrentInputs& in,
                          const RecurrentOutputs& out,
                          const RecurrentGradients& gradients) override {
    submit([=, this] { device_.recurrent_backward(g, in, out, gradients); });
  }
  void batch_norm_train(const BatchNormGeometry& g, const Tensor& x, const Tensor& gamma,
                        const Tensor& beta, const Tensor& residual, const Tensor& y,
                        const Tensor& mean, const Tensor& inv_std,
                        const RunningStatistics& running) override {
    submit([=, this] {
      device_.batch_norm_train(g, x, gamma, beta, residual, y, mean, inv_std, running);
    });
  }
  void batch_norm_inference(const BatchNormGeometry& g, const Tensor& x, const Tensor& gamma,
                            const Tensor& beta, const Tensor& residual, const Tensor& mean,
                            const Tensor& variance, const Tensor& y) override {
    submit([=, this] {
      device_.batch_norm_inference(g, x, gamma, beta, residual, mean, variance, y);
    });
  }
  void batch_norm_backward(const BatchNormGeometry& g, bool batch_statistics, const Tensor& x,
                           const Tensor& gamma, const Tensor& beta, const Tensor& y,
                           const Tensor& mean, const Tensor& inv_std, const UnsummedGrads& dy,
                           const Tensor& dx, const Tensor& dgamma, const Tensor& dbeta,
                           const Tensor& dresidual) override {
    submit([=, this] {
      device_.batch_norm_backward(g, batch_statistics, x, gamma, beta, y, mean, inv_std, dy, dx,
                                  dgamma, dbeta, dresidual);
    });
  }
  void layer_norm(const LayerNormGeometry& g, const Tensor& x, const Tensor& gamma,
                  const Tensor& beta, const Tensor& y, const Tensor& mean,
                  const Tensor& inv_std) override {
    submit([=, this] { device_.layer_norm(g, x, gamma, beta, y, mean, inv_std); });
  }
  void layer_norm_backward(const LayerNormGeometry& g, const Tensor& x, const Tensor& gamma,
                           const Tensor& mean, const Tensor& inv_std, const Tensor& dy,
                           const Tensor& dx, const Tensor& dgamma, const Tensor& dbeta) override {
    submit([=, this] {
      device_.layer_norm_backward(g, x, gamma, mean, inv_std, dy, dx, dgamma, dbeta);
    });
  }
  void softmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) override {
    submit([=, this] { device_.softmax(g, x, y); });
  }
  void softmax_backward(const SoftmaxGeometry& g, const Tensor& y, const Tensor& dy,
                        const Tensor& dx) override {
    submit([=, this] { device_.softmax_backward(g, y, dy, dx); });
  }
  void cross_entropy(const CrossEntropyGeometry& g, const Tensor& logits, const Tensor& target,
                     const Tensor& class_weight, const Tensor& loss,
                     const Tensor& dlogits) override {
    submit([=, this] { device_.cross_entropy(g, logits, target, class_weight, loss, dlogits); });
  }
  void binary_cross_entropy(const Tensor& logits, const Tensor& target, const Tensor& loss,
                            const Tensor& dlogits) override {
    submit([=, this] { device_.binary_cross_entropy(logits, target, loss, dlogits); });
  }
  void count_batch(const Tensor& logits, const Tensor& loss, const BatchCount& count) override {
    submit([=, this] { device_.count_batch(logits, loss, count); });
  }
  void add_squares(const Tensor& x, double* sum) override {
    submit([=, this] { device_.add_squares(x, sum); });
  }
  void begin_update(const StepRule& rule, StepState* state) override {
    submit([=, this] { device_.begin_update(rule, state); });
  }
  void optimizer_step(const OptimizerStep& step) override {
    submit([=, this] { device_.optimizer_step(step); });
  }
  void moving_average(const AverageStep& step) override {
    submit([=, this] { device_.moving_average(step); });
  }
  void copy_if(const int32_t* condition, const void* source, void* target, int64_t bytes) override {
    submit([=, this] { device_.copy_if(condition, source, target, bytes); });
  }
  void swap(const Tensor& a, const Tensor& b) override {
    submit([=, this] { device_.swap(a, b); });
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
    std::vector<std::function<void()>> calls;
    std::map<void*, std::pair<int64_t, MemoryCategory>> blocks;

   private:
    RecordingBackend& owner_;
  };

  template <class Call>
  void submit(Call call) {
    if (recording_) {
      recording_->calls.emplace_back(std::move(call));
    } else {
      call();
    }
  }
  void refuse(const char* what) const {
    if (recording_) fail(ErrorKind::device, "{}: not while capturing", what);
  }

  Backend& device_;
  Graph* recording_ = nullptr;
  std::unordered_set<void*> reserved_;  // by graphs
  int captures_ = 0;
};

}  // namespace whisker::test
