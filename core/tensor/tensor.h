// The tensor: a cheap handle on (storage, offset, shape, dtype), dense, row-major and stride-free.
// reshape and slices of the first axis are views; everything else copies. Images are NHWC.
// Operators are free functions in core/ops/ops.h; gradients live in core/autograd/autograd.h.
#pragma once

#include "core/tensor/device.h"
#include "core/tensor/dtype.h"
#include "core/tensor/ref.h"
#include "core/tensor/shape.h"
#include "core/tensor/storage.h"

#include <iosfwd>
#include <span>
#include <string_view>
#include <vector>

namespace whisker {

class Node;

/// Dtype and device of a new tensor.
struct TensorOptions {
  DType dtype = DType::f32;
  Device device = cpu_device;
};

class Tensor {
 public:
  Tensor() = default;
  Tensor(Ref<Storage> storage, int64_t offset, const Shape& shape, DType dtype);

  bool defined() const { return static_cast<bool>(body_); }
  explicit operator bool() const { return defined(); }

  const Shape& shape() const { return body().shape; }
  int rank() const { return shape().rank(); }
  int64_t extent(int axis) const { return shape()[axis]; }
  int64_t count() const { return shape().count(); }
  int64_t bytes() const { return count() * static_cast<int64_t>(size_of(dtype())); }
  DType dtype() const { return body().dtype; }
  Device device() const { return body().storage->device(); }
  bool is_cuda() const { return device().kind == DeviceKind::cuda; }
  TensorOptions options() const { return {.dtype = dtype(), .device = device()}; }

  const Ref<Storage>& storage() const { return body().storage; }
  /// First element's position in the storage, in elements.
  int64_t offset() const { return body().offset; }
  /// True when the tensor covers its storage from end to end.
  bool whole_storage() const { return offset() == 0 && bytes() == storage()->bytes(); }
  /// Untyped row-major contents on the tensor's device.
  void* raw() const {
    return static_cast<char*>(storage()->data()) +
           offset() * static_cast<int64_t>(size_of(dtype()));
  }
  /// Typed contents of a host tensor. Throws usage when T is another dtype or the device is a GPU.
  template <class T>
  std::span<T> data() const {
    check_host_access(dtype_of<std::remove_const_t<T>>::value);
    return {static_cast<T*>(raw()), static_cast<size_t>(count())};
  }
  /// The one element of a one-element tensor, from any device and dtype, as double.
  double item() const;
  /// A copy of the elements in host memory, from any device and dtype, as double.
  std::vector<double> to_vector() const;

  /// Same memory under another shape; one extent may be -1. Recorded on the tape.
  Tensor reshape(const Shape& shape) const;
  Tensor reshape(std::initializer_list<int64_t> extents) const;
  /// Copy on `device` (or this tensor itself when it is already there). Not recorded.
  Tensor to(Device device) const;
  /// Converted copy (or this tensor itself). Recorded on the tape.
  Tensor to(DType dtype) const;
  /// This tensor's memory, off the tape.
  Tensor detach() const;
  /// A copy of the memory, off the tape.
  Tensor clone() const;

  // In-place writes, off the tape: throw usage when this tensor is an operator's recorded result.
  void fill_(double value) const;
  /// Copies from a tensor of the same shape and dtype on any device.
  void copy_(const Tensor& source) const;

  /// True when gradients flow to or through this tensor.
  bool requires_grad() const { return body_ && body_->node; }
  /// Makes a leaf of this tensor; returns it. `name` is shown in prints and tape listings.
  const Tensor& set_requires_grad(std::string_view name = {}) const;
  /// Gradient of a leaf after backward(); undefined before.
  Tensor grad() const;
  void zero_grad() const;

  // What the tape needs.
  const Ref<Node>& node() const { return body().node; }
  uint32_t output_index() const { return body().output; }
  void attach(Ref<Node> node, uint32_t output) const;
  /// Whether no other handle shares this tensor or its storage, so that it may be overwritten.
  bool exclusive() const { return body_.get()->use_count() == 1 && storage()->use_count() == 1; }
  bool same(const Tensor& other) const { return body_ == other.body_; }

 private:
  struct Body : RefCounted {
    ~Body();  // in tensor.cpp: Node is incomplete here
    Ref<Storage> storage;
    int64_t offset = 0;  // in elements
    Shape shape;
    DType dtype = DType::f32;
    uint32_t output = 0;
    Ref<Node> node;  // producer, or the leaf's own node
  };
  Body& body() const {
    if (!body_) undefined();
    return *body_;
  }
  [[noreturn]] static void undefined();
  void check_host_access(DType wanted) const;

  Ref<Body> body_;
};

/// Shape, dtype, device unless the CPU, what made it, and the first eight values, in one line:
/// "(2,3) f32, leaf w: 1, 2, 3, 4, 5, 6".
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

// Creation. Host-side values are computed on the host and copied to the device.
Tensor empty(const Shape& shape, TensorOptions options = {});
Tensor empty_like(const Tensor& x);
Tensor zeros(const Shape& shape, TensorOptions options = {});
Tensor ones(const Shape& shape, TensorOptions options = {});
Tensor full(const Shape& shape, double value, TensorOptions options = {});
/// Elements in row-major order, converted to options.dtype. Throws usage when the count differs.
Tensor from_vector(std::span<const double> values, const Shape& shape, TensorOptions options = {});
Tensor from_vector(std::initializer_list<double> values, const Shape& shape,
                   TensorOptions options = {});
Tensor arange(int64_t count, TensorOptions options = {.dtype = DType::i64});
/// Uniform in [low, high) and standard normal, keyed by (seed, stream): see core/tensor/philox.h.
Tensor rand_uniform(const Shape& shape, double low, double high, uint64_t seed, uint64_t stream,
                    TensorOptions options = {});
Tensor rand_normal(const Shape& shape, double mean, double deviation, uint64_t seed,
                   uint64_t stream, TensorOptions options = {});

}  // namespace whisker
