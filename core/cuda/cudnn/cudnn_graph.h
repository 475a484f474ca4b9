// The part of cuDNN's graph API that convolutions and attention need: operation graphs, the engines
// that heuristics propose for them, execution plans, and their execution.
//
// Note [cuDNN's axes]
// cuDNN lists extents as {N,C,H,W} (filters {K,C,R,S}) whatever the order in memory; strides
// describe the memory. Whisker's images are NHWC (KRSC), so channels have stride 1.
#pragma once

#include "core/backend/convolution_pass.h"
#include "core/cuda/runtime/cudnn_descriptor.h"
#include "core/tensor/dtype_name.h"

#include <array>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace whisker::cuda::cudnn {

/// What graphs are built for: a present device, or the description of another one.
struct Target {
  cudnnHandle_t handle = nullptr;
  const Descriptor* device_properties = nullptr;  ///< used where there is no handle
};

/// A device from cuDNN's JSON description, to query its engines on a machine without it. Throws
/// device.
Descriptor device_properties(std::string_view json);

/// A tensor of four axes in any layout, 16-byte aligned; strides in elements.
struct TensorSpec {
  int64_t id = 0;
  std::array<int64_t, 4> extents{1, 1, 1, 1}, strides{1, 1, 1, 1};
  DType dtype = DType::f32;
  bool is_virtual = false;  ///< it lies between two operations and has no memory
  bool by_value = false;    ///< one number, which execution reads from host memory
};
/// Images (N,H,W,C) or filters (K,R,S,C): see Note [cuDNN's axes].
TensorSpec nhwc(int64_t id, const std::array<int64_t, 4>& shape, DType dtype);

/// Operations and their tensors. Add them, then finalize(); references stay valid.
class OperationGraph {
 public:
  explicit OperationGraph(Target target) : target_(target) {}

  const Descriptor& tensor(const TensorSpec& spec);
  /// In a gradient's pass x or w is the gradient that it computes, and y is dy.
  void convolution(ConvolutionPass pass, const Conv2dGeometry& g, const Descriptor& x,
                   const Descriptor& w, const Descriptor& y);
  /// y = f(x) and f(x, b), b broadcast, in f32.
  void pointwise(cudnnPointwiseMode_t f, const Descriptor& x, const Descriptor& y) {
    pointwise(f, x, nullptr, y);
  }
  void pointwise(cudnnPointwiseMode_t f, const Descriptor& x, const Descriptor& b,
                 const Descriptor& y) {
    pointwise(f, x, &b, y);
  }
  /// Over the axes where y has extent 1, in f32.
  void reduce(cudnnReduceTensorOp_t op, const Descriptor& x, const Descriptor& y);
  /// y = x of the same elements in other extents and strides.
  void reshape(const Descriptor& x, const Descriptor& y);
  /// c = a b of the last two axes, summed in f32.
  void matmul(const Descriptor& a, const Descriptor& b, const Descriptor& c);

  /// False when cuDNN knows no engine for such a graph.
  bool finalize();

  const Target& target() const { return target_; }
  const Descriptor& raw() const { return *graph_; }

 private:
  /// An operation with its tensors and what describes it, not yet finalized.
  using Parts = std::initializer_list<std::pair<cudnnBackendAttributeName_t, const Descriptor&>>;
  Descriptor& operation(cudnnBackendDescriptorType_t type, Parts parts);
  void pointwise(cudnnPointwiseMode_t f, const Descriptor& x, const Descriptor* b,
                 const Descriptor& y);

  Target target_;
  std::deque<Descriptor> parts_;  // all that the graph refers to
  std::vector<const Descriptor*> operations_;
  std::optional<Descriptor> graph_;
};

/// An engine with its knobs: one algorithm of cuDNN.
struct EngineChoice {
  int64_t engine = 0;
  std::vector<std::pair<int64_t, int64_t>> knobs;  // (cudnnBackendKnobType_t, value)

  /// "engine 34 knobs 2:1 13:4": parse(text()) gives the same choice.
  std::string text() const;
  /// nullopt when `text` is not of that form.
  static std::optional<EngineChoice> parse(const std::string& text);
  bool operator==(const EngineChoice&) const = default;
};

/// Properties of an engine: bits 1 << cudnnBackendNumericalNote_t.
using NumericalNotes = uint32_t;
constexpr NumericalNotes note(cudnnBackendNumericalNote_t value) {
  return NumericalNotes{1} << value;
}

/// The engines that one heuristic proposes for a graph, best first.
std::vector<EngineChoice> proposals(const OperationGraph& graph, cudnnBackendHeurMode_t heuristic);

struct Binding {
  int64_t id;
  void* memory;
};

/// A compiled graph.
class Plan {
 public:
  /// Null when the engine does not support the graph (shared memory, alignment, version) or has a
  /// `refused` property.
  static std::unique_ptr<Plan> make(std::shared_ptr<const OperationGraph> graph,
                                    const EngineChoice& choice, NumericalNotes refused = 0);

  int64_t workspace_bytes() const { return workspace_bytes_; }
  /// Enqueues the graph on the stream of its target's handle.
  void execute(std::span<const Binding> bindings, void* workspace) const;

 private:
  Plan(std::shared_ptr<const OperationGraph> graph, EngineChoice choice,
       std::vector<Descriptor> parts, Descriptor plan)
      : graph_(std::move(graph)),
        choice_(std::move(choice)),
        parts_(std::move(parts)),
        plan_(std::move(plan)) {}

  std::shared_ptr<const OperationGraph> graph_;
  EngineChoice choice_;
  std::vector<Descriptor> parts_;  // engine, knobs, configuration
  Descriptor plan_;
  int64_t workspace_bytes_ = plan_.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
};

}  // namespace whisker::cuda::cudnn
