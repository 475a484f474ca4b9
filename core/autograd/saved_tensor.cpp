#include "core/autograd/saved_tensor.h"

#include "core/autograd/gradients.h"

namespace whisker {

Saved save(const Tensor& tensor) {
  Saved saved;
  if (!tensor.defined() || !grad_mode.enabled) return saved;
  saved.tensor_ = tensor;
  saved.version_ = tensor.storage()->version();
  if (grad_mode.observer) grad_mode.observer->on_save(tensor);
  return saved;
}

Saved save_output(const Tensor& tensor, uint32_t output) {
  if (!grad_mode.enabled) return {};
  Saved saved = save(tensor.detach());
  saved.own_output_ = static_cast<int32_t>(output);
  return saved;
}

Tensor Saved::operator()(const Gradients& gradients) const {
  if (!tensor_.defined()) return {};
  if (tensor_.storage()->version() != version_) {
    fail(ErrorKind::usage,
         "{}: a tensor of shape {} saved for backward was changed in place afterwards. Change a "
         "clone() of it, or call backward() first.",
         gradients.node().name(), tensor_.shape());
  }
  if (own_output_ < 0 || !gradients.recording()) return tensor_;
  const Tensor attached = tensor_.detach();
  attached.attach(Ref<Node>(&gradients.node()), static_cast<uint32_t>(own_output_));
  return attached;
}

}  // namespace whisker
