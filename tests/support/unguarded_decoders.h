// The controls of the decoding tests: the libraries as they come, without our guards. Each returns
// whether the library reported success.
#pragma once

#include <cstdint>
#include <span>

namespace whisker::test {

bool unguarded_stb_accepts(std::span<const uint8_t> bytes);
bool unguarded_libjpeg_accepts(std::span<const uint8_t> bytes);

}  // namespace whisker::test
