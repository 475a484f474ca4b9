// cuDNN is a small library that opens its parts when their functions are called, and ends the
// process where it cannot (cuDNN Installation Guide, "sub-library overview"). So they are opened
// here first.
#pragma once

#include <string_view>

namespace whisker::cuda {

/// Opens `part` (graph, ops, adv, ...) of the cuDNN that is loaded, for the life of the process.
/// Throws device, with the loader's words, when that fails.
void open_cudnn_part(std::string_view part);

}  // namespace whisker::cuda
