// The border between a model's parameters and weights files: names and axis orders on disk are
// PyTorch's (see docs/reference/formats.md). Loading is strict and all or nothing.
#pragma once

#include "core/io/safetensors.h"
#include "core/parameters/parameters.h"
#include "layers/builder/model_builder.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace whisker {

/// The shape of a parameter in files: convolution weights are (c_out, c_in / groups, kernel_h,
/// kernel_w) there, everything else is as in memory.
Shape file_shape(const Parameter& parameter);
/// Values of one parameter between memory's and files' order: convolution weights (O,H,W,I) and
/// (O,I,H,W); features behind a flatten (H,W,C) and (C,H,W). Moments and averages go the same way.
std::vector<float> to_file_order(const Parameter& parameter, std::span<const float> memory);
std::vector<float> from_file_order(const Parameter& parameter, std::span<const float> file);

/// One tensor of a weights file, in host memory.
struct WeightsTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<uint64_t> shape;
  std::vector<std::byte> bytes;
};

/// A host copy of every parameter and buffer, as torch's state_dict() holds them: a batch_norm's
/// `num_batches_tracked` (i64) is `batches_tracked`, the training steps its statistics have seen.
std::vector<WeightsTensor> state_dict(const ParameterArena& arena, int64_t batches_tracked);
/// What write_safetensors takes; `tensors` must outlive the result.
std::vector<SafetensorsEntry> entries_of(const std::vector<WeightsTensor>& tensors);

struct LoadOptions {
  /// Parameters selected by one of these (see selects) keep their initial values; the file's
  /// tensors of such names are ignored. One that selects neither is refused (usage).
  std::vector<std::string> skip = {};
  /// Fine-tuning: a head whose number of classes differs keeps its initial values.
  bool allow_new_head = false;
  /// The file's classes are known to be others, be they as many: so does a head that would fit.
  bool other_classes = false;
};

struct LoadReport {
  int64_t loaded = 0;                 ///< tensors taken from the file
  std::vector<std::string> skipped;   ///< parameters left alone because of LoadOptions::skip
  std::vector<std::string> new_head;  ///< parameters left alone because the classes differ
  std::string new_head_shapes;  ///< "file (1,8), model (2,8)" of the first; "" where they are equal
  int64_t batches_tracked = 0;  ///< the largest num_batches_tracked of the file
  std::vector<std::string> beside;  ///< tensors that stand beside the network, see wrapped_names.h
  std::string summed_to_gray;       ///< the weights of which three channels were summed, or ""

  /// Messages for the user about `beside` and `summed_to_gray`; `file` is their file's name.
  std::vector<std::string> notes(const std::string& file) const;
};

/// Copies a file's tensors into the model's parameters. Names lose `module.`, `_orig_mod.` and the
/// prefixes of a trainer's module (wrapped_names.h); timm's become torchvision's or
/// the reverse (tensor_names.h); f16, bf16 and f64 are converted. The first convolution of a
/// network on gray images may be stored for three channels: they are summed, as timm does. Throws
/// checkpoint, and has changed nothing, for a tensor with NaN or Inf, and with one table of all
/// missing, unexpected and misshaped names.
LoadReport load_weights(const SafetensorsFile& file, const Model& model, ParameterArena& arena,
                        const LoadOptions& options = {});

/// The outputs of a file that has exactly the model's tensors, of equal shapes but for the head's
/// first axis; else nothing. One output is a logit of two classes.
std::optional<int64_t> classes_that_fit(const SafetensorsFile& file, const Model& model);

/// How a file's tensors differ from the model's, but for the number of outputs.
struct WeightsDifference {
  int64_t fitting = 0;     ///< of the model's parameters
  int64_t parameters = 0;  ///< of the model
  int64_t others = 0;      ///< tensors of the file that are none of them
  /// The first of the model's tensors that the file lacks or has in another shape, else the first
  /// that only the file has: "layer1.0.bn1.bias is missing". "" when none differs.
  std::string first;

  /// From 0 to 1: the part of all names that fit.
  double likeness() const {
    return static_cast<double>(fitting) / static_cast<double>(parameters + others);
  }
};
WeightsDifference difference_of_weights(const SafetensorsFile& file, const Model& model);

}  // namespace whisker
