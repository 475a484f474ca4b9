#include "core/trace/tensor_sample.h"

#include "core/backend/backend.h"
#include "core/tensor/convert.h"

#include <algorithm>

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

// By linear probing.
ElementTable::Slot& ElementTable::slot_of(int64_t element) {
  const size_t mask = slots_.size() - 1;
  for (size_t at = static_cast<size_t>(element) * 0x9e3779b97f4a7c15u >> 32;; ++at) {
    Slot& slot = slots_[at & mask];
    if (slot.element == element || slot.element < 0) return slot;
  }
}

std::pair<double&, bool> ElementTable::emplace(int64_t element) {
  if (2 * used_ >= slots_.size()) {
    const std::vector<Slot> before =
        std::exchange(slots_, std::vector<Slot>(std::max<size_t>(64, 2 * slots_.size())));
    for (const Slot& one : before) {
      if (one.element >= 0) slot_of(one.element) = one;
    }
  }
  Slot& slot = slot_of(element);
  const bool is_new = slot.element < 0;
  used_ += is_new;
  slot.element = element;
  return {slot.value, is_new};
}

double TensorSample::at(int64_t element) {
  const auto [value, is_new] = values.emplace(element);
  if (is_new && live) value = live->at(element);
  if (is_new && !live) missing.push_back(element);
  return value;
}

std::vector<double> arrived_at(const Node::Output& output, std::span<const int64_t> elements) {
  HostElements first(output.gradient), second(output.unsummed);
  std::vector<double> values;
  for (const int64_t i : elements) {
    values.push_back(first.at(i));
    if (!output.unsummed.defined()) continue;
    const double sum = values.back() + second.at(i);
    visit(output.dtype, [&]<class T>() { values.back() = convert<double>(convert<T>(sum)); });
  }
  return values;
}

}  // namespace whisker
