// What tensors do by a backend, an operator or the tape.
#include "core/tensor/tensor.h"

#include "core/autograd/autograd.h"
#include "core/backend/backend.h"
#include "core/backend/elementwise.h"
#include "core/error.h"
#include "core/ops/ops.h"

#include <memory>
#include <vector>

namespace whisker {

// Here, as the body holds a node of the tape.
Tensor::Tensor(Ref<Storage> storage, int64_t offset, const Shape& shape, DType dtype)
    : body_(new Body) {
  body_->storage = std::move(storage);
  body_->offset = offset;
  body_->shape = shape;
  body_->dtype = dtype;
}

Tensor::Body::~Body() = default;

std::vector<double> Tensor::to_vector() const {
  const auto elements = static_cast<size_t>(count());
  std::vector<double> result(elements);
  std::vector<char> host(static_cast<size_t>(bytes()));
  if (elements > 0) backend_of(device()).download(raw(), host.data(), bytes());
  visit(dtype(), [&]<class T>() {
    const T* values = reinterpret_cast<const T*>(host.data());
    for (size_t i = 0; i < elements; ++i) {
      if constexpr (std::is_same_v<T, f16_t> || std::is_same_v<T, bf16_t>) {
        result[i] = static_cast<float>(values[i]);
      } else {
        result[i] = static_cast<double>(values[i]);
      }
    }
  });
  return result;
}

Tensor Tensor::reshape(const Shape& shape) const {
  return whisker::reshape(*this, shape);
}

Tensor Tensor::to(DType target) const {
  return target == dtype() ? *this : cast(*this, target);
}

Tensor Tensor::clone() const {
  const Tensor copy = empty(shape(), options());
  if (count() > 0) backend_of(device()).copy(raw(), copy.raw(), bytes());
  return copy;
}

namespace {

void check_in_place(const Tensor& x, const char* op) {
  if (x.requires_grad() && !x.node()->is_leaf()) {
    fail(ErrorKind::usage,
         "{}: the tensor of shape {} is the result of {} on the tape; change a detach().clone() of "
         "it instead",
         op, x.shape(), x.node()->name());
  }
}

}  // namespace

void Tensor::fill_(double value) const {
  check_in_place(*this, "fill_");
  if (count() > 0) backend_of(device()).elementwise().fill(value, *this);
  storage()->bump_version();
}

void Tensor::copy_(const Tensor& source) const {
  check_in_place(*this, "copy_");
  if (!(source.shape() == shape()) || source.dtype() != dtype()) {
    fail(ErrorKind::usage, "copy_: expected {} {}, got {} {}", shape(), dtype(), source.shape(),
         source.dtype());
  }
  storage()->bump_version();
  if (count() == 0) return;
  if (source.device() == device()) {
    backend_of(device()).copy(source.raw(), raw(), bytes());
  } else if (!source.is_cuda()) {
    backend_of(device()).upload(source.raw(), raw(), bytes());
  } else if (!is_cuda()) {
    backend_of(source.device()).download(source.raw(), raw(), bytes());
  } else {
    const Tensor host = source.to(cpu_device);
    backend_of(device()).upload(host.raw(), raw(), bytes());
  }
}

const Tensor& Tensor::set_requires_grad(std::string_view name) const {
  if (!is_floating(dtype())) {
    fail(ErrorKind::usage, "set_requires_grad: {} tensors have no gradient; use a floating type",
         dtype());
  }
  if (!node()) attach(Ref<Node>(new Leaf(*this, {}, name)), 0);
  return *this;
}

Tensor Tensor::grad() const {
  if (!requires_grad() || !node()->is_leaf()) {
    fail(ErrorKind::usage, "grad: only leaves made by set_requires_grad() keep a gradient");
  }
  return static_cast<const Leaf&>(*node()).gradient();
}

void Tensor::zero_grad() const {
  if (requires_grad() && node()->is_leaf()) static_cast<Leaf&>(*node()).clear();
}

void Tensor::attach(Ref<Node> node, uint32_t output) const {
  body().node = std::move(node);
  body().output = output;
}

Tensor full(const Shape& shape, double value, TensorOptions options) {
  const Tensor y = empty(shape, options);
  if (y.count() > 0) backend_of(options.device).elementwise().fill(value, y);
  return y;
}

Tensor from_vector(std::span<const double> values, const Shape& shape, TensorOptions options) {
  if (static_cast<int64_t>(values.size()) != shape.count()) {
    fail(ErrorKind::usage, "from_vector: {} values do not fill shape {}", values.size(), shape);
  }
  const Tensor y = empty(shape, options);
  if (values.empty()) return y;
  visit(options.dtype, [&]<class T>() {
    auto host = std::make_unique<T[]>(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_same_v<T, f16_t> || std::is_same_v<T, bf16_t>) {
        host[i] = T(static_cast<float>(values[i]));
      } else {
        host[i] = static_cast<T>(values[i]);
      }
    }
    backend_of(options.device).upload(host.get(), y.raw(), y.bytes());
  });
  return y;
}

}  // namespace whisker
