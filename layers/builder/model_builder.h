// From the `model` section of a configuration to a network: a list of layers in Keras' vocabulary,
// or a preset by name (docs/reference/models.md). All shapes are worked out here; no tensor is
// made.
#pragma once

#include "core/io/yaml.h"
#include "layers/builder/layer_factory.h"
#include "layers/sequential.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace whisker {

struct BuildOptions {
  Shape input;              ///< (N,H,W,C); sequences (T,N,F), or tokens (T,N) for an embedding
  int batch_axis = 0;       ///< of `input`: 1 for sequences
  int64_t classes = 0;      ///< what the word `classes` stands for; 0: the file may not use it
  bool every_step = false;  ///< classes are told for every step, (T, N, classes)
  int64_t vocabulary = 0;   ///< what the word `vocabulary` stands for in an embedding; 0: nothing
  bool lengths = false;     ///< batches say how long each sequence is
  /// Keys of the section that the caller reads itself.
  std::vector<std::string> other_keys = {};
};

struct Model {
  std::shared_ptr<Sequential> net = {};  ///< (N,H,W,C) -> logits
  Shape input = {};
  int batch_axis = 0;    ///< of `input`
  bool lengths = false;  ///< batches say how long each sequence is
  Shape output = {};     ///< (N, classes), or (N, 1) for two classes and a sigmoid; (T, N, classes)
  OutputKind output_kind = OutputKind::softmax;
  std::string preset = {};              ///< "" when the file listed the layers
  std::vector<std::string> notes = {};  ///< what became the loss's: "softmax into the loss"
  /// Settings without effect, a line each: "lstm_1: dropout has no effect: ...".
  std::vector<std::string> unused = {};
  std::optional<OutputKind> named_output = {};  ///< the last layer's activation, where it has one
  std::vector<std::string> head = {};  ///< names of the layers that decide the number of classes
  /// Where each named layer stands, by its name: "file:line:column: model.layers[2]".
  std::map<std::string, std::string> places = {};
};

/// Builds the network of `section`: a preset's name, a list of layers, {preset: name, ...} or
/// {layers: [...]}, with
/// - `layers`, `head`: lists, one after the other; either replaces the preset's;
/// - `defaults`: settings per layer type; in place of the preset's;
/// - `overrides`: settings per layer type, stronger than the layers' own; beside the preset's;
/// - `values`: the texts of `{words}` in the layers; beside the preset's;
/// - `initializer`: pytorch (default) or keras;
/// - `width`, `depth`: multiply the filters of convolutions and the counts of repeats;
/// - `drop_path`: the largest rate of stochastic depth (`drop_path: auto` of residuals);
/// - `one_logit`: true makes the word `classes` one unit, the second of two classes, for a sigmoid;
/// - `recompute`: true, or names of blocks (layers/recomputed_blocks.h);
/// - `fuse`: false makes every layer an operator of its own (layers/fusion.h).
/// Throws usage, `file:line:column: model.layers[2]...`, for unknown layers and settings and where
/// shapes do not fit.
Model build_model(const YamlNode& section, const BuildOptions& options);

/// Probabilities (N, classes) from logits; a sigmoid's two classes become two columns.
Tensor probabilities(const Tensor& logits, OutputKind kind);

}  // namespace whisker
