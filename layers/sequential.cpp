// A loop over the children.
#include "layers/sequential.h"

#include <algorithm>

namespace whisker {

void Sequential::add_named(const std::string& name, std::shared_ptr<Module> module) {
  add_child(name, std::move(module));
}

Tensor Sequential::forward(const Tensor& x, const Pass& pass) {
  return forward_first(size(), x, pass);
}

Tensor Sequential::forward_first(size_t count, const Tensor& x, const Pass& pass) {
  Tensor y = x;
  for (size_t i = 0; i < count; ++i) y = (*layer(i))(y, pass);
  return y;
}

Shape Sequential::output_shape(const Shape& x) const {
  Shape y = x;
  for (const Child& child : children()) y = child.module->output_shape(y);
  return y;
}

int Sequential::add_to(Plan& plan, int x) const {
  return add_first_to(size(), plan, x);
}

int Sequential::add_first_to(size_t count, Plan& plan, int x) const {
  for (size_t i = 0; i < count; ++i) x = layer(i)->add_to(plan, x);
  return x;
}

std::string Sequential::default_name(const std::string& type) const {
  std::string name = type;
  const auto taken = [&] {
    return std::any_of(children().begin(), children().end(),
                       [&](const Child& child) { return child.name == name; });
  };
  for (int number = 1; taken(); ++number) name = fmt::format("{}_{}", type, number);
  return name;
}

}  // namespace whisker
