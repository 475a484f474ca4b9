// A trained network as an ONNX file: docs/reference/formats.md says what stands in it.
#pragma once

#include "train/model/network.h"

#include <string>
#include <string_view>

namespace whisker {

struct OnnxOptions {
  bool probabilities = false;  ///< of classes, in place of logits
  bool preprocess = false;     ///< the input is pixels, u8 (batch, height, width, 3)
};

/// The file's bytes. Throws usage for layers without an ONNX form, for options that do not fit the
/// network, and where the program was built without ONNX.
std::string export_onnx(const Network& network, const OnnxOptions& options = {});
/// Whether a file's content is from it, and unchanged.
bool is_own_onnx(std::string_view content);

}  // namespace whisker
