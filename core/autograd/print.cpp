// operator<< of tensors.
#include "core/autograd/node.h"
#include "core/tensor/tensor.h"

#include <algorithm>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>

namespace whisker {
namespace {

constexpr int64_t most_printed = 8;

// "1, 0.5, ...": read from the device without the rest.
std::string first_values(const Tensor& tensor) {
  const Shape few{std::min(tensor.count(), most_printed)};
  const Tensor host = Tensor(tensor.storage(), tensor.offset(), few, tensor.dtype()).to(cpu_device);
  std::string text;
  visit(tensor.dtype(), [&]<class T>() {
    for (const T value : host.data<const T>()) {
      if (!text.empty()) text += ", ";
      if constexpr (std::is_integral_v<T>) {
        text += fmt::format("{}", value);
      } else if constexpr (std::is_same_v<T, double>) {
        text += fmt::format("{:.6g}", value);
      } else {
        text += fmt::format("{:.6g}", static_cast<float>(value));
      }
    }
  });
  return tensor.count() > most_printed ? text + ", ..." : text;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  if (!tensor.defined()) return out << "undefined tensor";
  out << fmt::format("{} {}", tensor.shape(), tensor.dtype());
  if (tensor.device() != cpu_device) out << fmt::format(" on {}", tensor.device());
  if (const Ref<Node>& node = tensor.node()) {
    const std::string_view name = node->name();
    out << (node->is_leaf() ? ", leaf" : ", result of");
    if (name != "leaf") out << ' ' << name;
  }
  return out << ": " << first_values(tensor);
}

}  // namespace whisker
