// Handles, views and creation. What needs a backend, an operator or the tape: core/ops/tensor.cpp.
#include "core/tensor/tensor.h"

#include "core/error.h"
#include "core/tensor/philox.h"

#include <vector>

namespace whisker {

void Tensor::undefined() {
  fail(ErrorKind::usage, "tensor: used before it was given a value (undefined tensor)");
}

void Tensor::check_host_access(DType wanted) const {
  if (wanted != dtype()) {
    fail(ErrorKind::usage, "data: the tensor holds {}, not {}. Use to({}).", dtype(), wanted,
         wanted);
  }
  if (is_cuda()) {
    fail(ErrorKind::usage, "data: the tensor is on {}; copy it with to(cpu_device) first",
         device());
  }
}

double Tensor::item() const {
  if (count() != 1) fail(ErrorKind::usage, "item: expected one element, got shape {}", shape());
  if (dtype() == DType::f32 && !is_cuda()) return *static_cast<const float*>(raw());
  return to_vector()[0];
}

Tensor Tensor::reshape(std::initializer_list<int64_t> extents) const {
  std::vector<int64_t> resolved(extents);
  int64_t known = 1;
  int64_t* open = nullptr;
  for (int64_t& extent : resolved) {
    if (extent != -1) {
      if (__builtin_mul_overflow(known, extent, &known)) known = 0;  // fills nothing
    } else if (open) {
      fail(ErrorKind::usage, "reshape: only one extent may be -1, got ({})",
           fmt::join(extents, ","));
    } else {
      open = &extent;
    }
  }
  if (open) {
    if (known <= 0 || count() % known != 0) {
      fail(ErrorKind::usage, "reshape: {} elements of {} do not fill ({})", count(), shape(),
           fmt::join(extents, ","));
    }
    *open = count() / known;
  }
  return reshape(Shape(std::span<const int64_t>(resolved)));
}

Tensor Tensor::to(Device target) const {
  if (target == device()) return *this;
  const Tensor copy = empty(shape(), {.dtype = dtype(), .device = target});
  copy.copy_(*this);
  return copy;
}

Tensor Tensor::detach() const {
  return Tensor(storage(), offset(), shape(), dtype());
}

// --- creation --------------------------------------------------------------------------------

Tensor empty(const Shape& shape, TensorOptions options) {
  const int64_t bytes = shape.count() * static_cast<int64_t>(size_of(options.dtype));
  return Tensor(Ref<Storage>(new Storage(options.device, bytes)), 0, shape, options.dtype);
}

Tensor empty_like(const Tensor& x) {
  return empty(x.shape(), x.options());
}

Tensor zeros(const Shape& shape, TensorOptions options) {
  return full(shape, 0, options);
}

Tensor ones(const Shape& shape, TensorOptions options) {
  return full(shape, 1, options);
}

Tensor from_vector(std::initializer_list<double> values, const Shape& shape,
                   TensorOptions options) {
  return from_vector(std::span<const double>(values.begin(), values.size()), shape, options);
}

Tensor arange(int64_t count, TensorOptions options) {
  const Shape shape{count};  // refuses a negative count before memory is asked for
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return from_vector(values, shape, options);
}

Tensor rand_uniform(const Shape& shape, double low, double high, uint64_t seed, uint64_t stream,
                    TensorOptions options) {
  PhiloxStream random(seed, stream);
  std::vector<double> values(static_cast<size_t>(shape.count()));
  for (double& value : values) value = random.uniform(low, high);
  return from_vector(values, shape, options);
}

Tensor rand_normal(const Shape& shape, double mean, double deviation, uint64_t seed,
                   uint64_t stream, TensorOptions options) {
  PhiloxStream random(seed, stream);
  std::vector<double> values(static_cast<size_t>(shape.count()));
  for (double& value : values) value = mean + deviation * random.normal();
  return from_vector(values, shape, options);
}

}  // namespace whisker
