// How bench programs are told a convolution: N,SIDE,C,C_OUT,KERNEL,STRIDE,PADDING.
#pragma once

#include "core/error.h"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace whisker::bench {

/// The seven numbers. Throws usage, naming `program`, for another count.
inline std::vector<int64_t> layer_numbers(const char* program, const std::string& text) {
  std::vector<int64_t> numbers;
  for (size_t at = 0; at != std::string::npos; at = text.find(',', at)) {
    if (at > 0) ++at;
    numbers.push_back(std::strtoll(text.c_str() + at, nullptr, 10));
  }
  if (numbers.size() == 7) return numbers;
  fail(ErrorKind::usage, "{}: expected 7 numbers, N,SIDE,C,C_OUT,KERNEL,STRIDE,PADDING, got '{}'",
       program, text);
}

}  // namespace whisker::bench
