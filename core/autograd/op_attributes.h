// What operators are given besides tensors, as text for whoever records a step.
#pragma once

#include <string>
#include <utility>

#include <fmt/format.h>

namespace whisker {

/// Where this thread's operators write their attributes; null unless a step is recorded.
inline constinit thread_local std::string* op_attributes = nullptr;

/// "stride 2 2, groups 1": the attributes of the operator that records next on this thread. Names
/// and numbers, separated by commas.
template <class... Args>
void describe_op(fmt::format_string<Args...> format, Args&&... args) {
  if (op_attributes) *op_attributes = fmt::format(format, std::forward<Args>(args)...);
}

}  // namespace whisker
