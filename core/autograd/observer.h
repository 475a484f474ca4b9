// The thread's gradient mode, and the observer of what is recorded.
#pragma once

#include "core/tensor/tensor.h"

#include <span>
#include <string_view>
#include <utility>

namespace whisker {

class Node;

/// Callbacks for what this thread's tape does; used by `whisker study`, traces and tests.
class TapeObserver {
 public:
  /// Absent inputs are undefined tensors.
  using Tensors = std::span<const Tensor* const>;

  virtual ~TapeObserver() = default;
  /// A tensor was kept for the next on_record(), or dropped by the next on_unrecorded().
  virtual void on_save(const Tensor&) {}
  virtual void on_record(const Node&, Tensors /*inputs*/, Tensors /*outputs*/) {}
  /// An operator ran, and no input needs a gradient.
  virtual void on_unrecorded(const char* /*name*/, Tensors /*inputs*/, Tensors /*outputs*/) {}
  /// Operators up to the matching end belong to the layer of this dotted name. Scopes nest.
  virtual void on_scope_begin(std::string_view /*layer*/) {}
  virtual void on_scope_end() {}
  virtual void on_backward_begin(const Node&) {}
  /// node.outputs() hold the gradients, after hooks; see Note [Unsummed gradients].
  virtual void on_backward_end(const Node&) {}
};

/// The thread's gradient mode.
struct GradMode {
  bool enabled = true;
  TapeObserver* observer = nullptr;  ///< called at every record, save and backward step
};
inline constinit thread_local GradMode grad_mode;

/// Reports to the thread's observer, if any, which layer runs while this object lives.
class TapeScope {
 public:
  explicit TapeScope(std::string_view layer) : observer_(grad_mode.observer) {
    if (observer_) observer_->on_scope_begin(layer);
  }
  ~TapeScope() {
    if (observer_) observer_->on_scope_end();
  }
  TapeScope(const TapeScope&) = delete;
  TapeScope& operator=(const TapeScope&) = delete;

 private:
  TapeObserver* observer_;
};

/// Nothing is recorded on this thread while one lives.
class NoGrad {
 public:
  NoGrad() : previous_(std::exchange(grad_mode.enabled, false)) {}
  ~NoGrad() { grad_mode.enabled = previous_; }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool previous_;
};

inline bool needs_grad(const Tensor& x) {
  return grad_mode.enabled && x.defined() && x.requires_grad();
}

}  // namespace whisker
