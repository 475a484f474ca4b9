#include "core/trace/tensor_sample.h"

#include "core/backend/backend.h"
#include "core/tensor/convert.h"

#include <limits>

namespace whisker {

double HostElements::at(int64_t element) {
  if (x_.is_cuda() && copy_.empty()) {
    copy_.resize(static_cast<size_t>(x_.bytes()));
    backend_of(x_.device()).download(x_.raw(), copy_.data(), x_.bytes());
  }
  const void* const from = copy_.empty() ? x_.raw() : copy_.data();
  double value = 0;
  visit(x_.dtype(),
        [&]<class T>() { value = convert<double>(static_cast<const T*>(from)[element]); });
  return value;
}

double TensorSample::at(int64_t element) {
  if (const auto found = values.find(element); found != values.end()) return found->second;
  if (!live) {
    missing.push_back(element);
    return std::numeric_limits<double>::quiet_NaN();
  }
  return values[element] = live->at(element);
}

double rounded(DType dtype, double value) {
  if (dtype == DType::f64) return value;
  const auto single = static_cast<float>(value);
  if (dtype == DType::bf16) return static_cast<float>(bf16_t(single));
  if (dtype == DType::f16) return static_cast<float>(f16_t(single));
  return single;
}

std::vector<double> arrived_at(const Node::Output& output, std::span<const int64_t> elements) {
  HostElements first(output.gradient), second(output.unsummed);
  std::vector<double> values;
  for (const int64_t i : elements) {
    values.push_back(first.at(i));
    if (!output.unsummed.defined()) continue;
    values.back() = rounded(output.dtype, values.back() + second.at(i));
  }
  return values;
}

}  // namespace whisker
