// What one forward and backward pass did, operator by operator: the listing that study prints and
// draws. A TapeListing observes its thread's tape while it lives.
#pragma once

#include "core/autograd/autograd.h"

#include <chrono>
#include <limits>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace whisker {

/// A tensor kept for backward.
struct TapeSaved {
  std::string what;  ///< "input", "output", a name, or "workspace"
  Shape shape;
  DType dtype = DType::f32;
  int64_t bytes = 0;  ///< memory that only this keeps alive: 0 for parameters and repetitions
};

enum class TapeKind : uint8_t {
  op,
  leaf,      ///< a tensor that gradients accumulate into
  constant,  ///< an operand that wants no gradient and that no listed operator made
};

/// One operator, leaf or constant. `inputs` are indices into TapeListing::entries().
struct TapeEntry {
  TapeKind kind = TapeKind::op;
  std::string name;   ///< the operator's, or the text given to name()
  std::string layer;  ///< dotted name; "" outside of layers
  std::vector<size_t> inputs = {};
  Shape shape;  ///< of the first output
  DType dtype = DType::f32;
  bool recorded = true;  ///< false when no input wanted a gradient
  std::vector<TapeSaved> saved = {};
  int number = 0;         ///< operators count from 1 in the order they ran
  double forward_ms = 0;  ///< since the operator before it, or its layer's begin
  int backward_step = 0;  ///< from 1; 0 when backward did not visit it
  double backward_ms = 0;
  /// Euclidean norm of d(root)/d(first output); NaN when not computed.
  double gradient_norm = std::numeric_limits<double>::quiet_NaN();
};

class TapeListing final : public TapeObserver {
 public:
  struct Options {
    bool gradient_norms = false;  ///< reads every gradient: slow for large networks
  };
  TapeListing() : TapeListing(Options{}) {}
  explicit TapeListing(const Options& options);
  ~TapeListing() override;
  TapeListing(const TapeListing&) = delete;
  TapeListing& operator=(const TapeListing&) = delete;

  /// What to call a leaf (a parameter) or a constant (the input images).
  void name(const Tensor& tensor, const std::string& text);
  /// All entries that lead to a recorded operator, in topological order. Other operators (running
  /// statistics, the labels' cast) are left out, unless nothing was recorded.
  std::vector<TapeEntry> entries() const;
  /// Numbered tables of both directions, and totals; `width` as in TextTable::str().
  std::string str(size_t width = 0) const;

  void on_save(const Tensor& tensor) override;
  void on_record(const Node& node, Tensors inputs, Tensors outputs) override;
  void on_unrecorded(const char* name, Tensors inputs, Tensors outputs) override;
  void on_scope_begin(std::string_view layer) override;
  void on_scope_end() override;
  void on_backward_begin(const Node& node) override;
  void on_backward_end(const Node& node) override;

 private:
  using Clock = std::chrono::steady_clock;

  TapeEntry& add_operator(const char* name, Tensors inputs, const Tensor& output);
  size_t entry_of(const Tensor& operand);
  size_t entry_of(const Node& leaf);
  void describe_saved(TapeEntry& entry, Tensors inputs, Tensors outputs);
  double lap_ms();

  Options options_;
  TapeObserver* previous_;
  std::vector<TapeEntry> entries_;
  std::unordered_map<uint64_t, size_t> by_node_;       // Node::sequence() -> entry
  std::unordered_map<std::string, size_t> by_memory_;  // of tensors without a node
  std::unordered_map<uint64_t, std::string> leaf_names_;
  std::unordered_map<std::string, std::string> constant_names_;
  std::unordered_set<const Storage*> kept_storages_;
  std::vector<Tensor> alive_;    // what by_memory_ knows: their addresses must not be used again
  std::vector<Tensor> pending_;  // saved by the operator that is being recorded
  std::vector<std::string> layers_;
  int backward_steps_ = 0;
  int backward_depth_ = 0;
  Clock::time_point mark_;
};

}  // namespace whisker
