// backward() and grad(): what an engine starts from, and on which threads it may run.
#include "core/autograd/engine.h"
#include "core/error.h"

#include <array>
#include <atomic>
#include <utility>

namespace whisker {
namespace {

Tensor root_gradient(const Tensor& root, const BackwardOptions& options, const char* op) {
  if (!root.requires_grad()) {
    fail(ErrorKind::usage, "{}: the root has no graph: no leaf it depends on requires a gradient",
         op);
  }
  if (options.gradient.defined()) {
    const Tensor& gradient = options.gradient;
    if (!(gradient.shape() == root.shape()) || gradient.dtype() != root.dtype() ||
        !(gradient.device() == root.device())) {
      fail(ErrorKind::usage, "{}: the gradient is {} {} on {}, the root {} {} on {}", op,
           gradient.shape(), gradient.dtype(), gradient.device(), root.shape(), root.dtype(),
           root.device());
    }
    return gradient;
  }
  if (root.count() != 1) {
    fail(ErrorKind::usage,
         "{}: the root has shape {}; pass the gradient of a root that is not one element", op,
         root.shape());
  }
  return ones(root.shape(), root.options());
}

constinit thread_local const char this_thread = 0;  // whose address names the thread

// A GPU's streams and plans belong to one thread at a time: where the run's results are, no other
// thread runs backward.
class TurnOnDevice {
 public:
  explicit TurnOnDevice(Device device) {
    if (device.kind != DeviceKind::cuda) return;
    std::atomic<const void*>& holder = holders[static_cast<size_t>(device.index) % most_devices];
    const void* found = nullptr;
    if (holder.compare_exchange_strong(found, &this_thread, std::memory_order_acquire)) {
      holder_ = &holder;
    } else if (found != &this_thread) {
      fail(ErrorKind::usage,
           "backward: another thread runs backward on {}. A GPU is for one thread at a time.",
           device);
    }
  }
  ~TurnOnDevice() {
    if (holder_) holder_->store(nullptr, std::memory_order_release);
  }
  TurnOnDevice(const TurnOnDevice&) = delete;
  TurnOnDevice& operator=(const TurnOnDevice&) = delete;

 private:
  static constexpr size_t most_devices = 64;
  static inline constinit std::array<std::atomic<const void*>, most_devices> holders{};
  std::atomic<const void*>* holder_ = nullptr;
};

}  // namespace

void backward(const Tensor& root, const BackwardOptions& options) {
  if (options.create_graph) {
    fail(ErrorKind::usage,
         "backward: create_graph belongs to grad(), which returns gradients that are on the tape");
  }
  Tensor gradient = root_gradient(root, options, "backward");
  const TurnOnDevice turn(root.device());
  Engine(options, {}).run(root, std::move(gradient));
}

std::vector<Tensor> grad(const Tensor& root, std::span<const Tensor> inputs,
                         const BackwardOptions& options) {
  std::vector<Engine::RequestedGrad> requested;
  for (const Tensor& input : inputs) {
    if (!input.requires_grad()) {
      fail(ErrorKind::usage, "grad: an input of shape {} requires no gradient", input.shape());
    }
    requested.push_back({{input.node(), input.output_index()}, {}});
  }
  if (requested.empty()) return {};
  Tensor gradient = root_gradient(root, options, "grad");
  const TurnOnDevice turn(root.device());
  Engine(options, requested).run(root, std::move(gradient));
  std::vector<Tensor> gradients;
  for (Engine::RequestedGrad& one : requested) gradients.push_back(std::move(one.gradient));
  return gradients;
}

}  // namespace whisker
