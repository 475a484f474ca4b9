// A trained or training network with everything it takes to use it: classes, preprocessing, and
// what its outputs mean. Saved as one weights file, see docs/formats.md.
#pragma once

#include "core/io/safetensors.h"
#include "core/parameters.h"
#include "data/preprocess.h"
#include "layers/model_builder.h"

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace whisker {

class Classifier {
 public:
  Classifier(Model model, std::shared_ptr<ParameterArena> arena, std::vector<std::string> classes,
             Preprocess preprocess)
      : model_(std::move(model)),
        arena_(std::move(arena)),
        classes_(std::move(classes)),
        preprocess_(std::move(preprocess)) {}

  /// Builds the network that a weights file describes and loads it onto `device`. Throws
  /// checkpoint, naming what the file lacks.
  static Classifier load(const std::filesystem::path& path, Device device);

  /// images (N,H,W,C) -> f32 (N, classes), or (N, 1) for two classes and a sigmoid. The layers
  /// between compute in the arena's compute dtype.
  Tensor logits(const Tensor& images, const Pass& pass = {}) const {
    const Tensor input = images.to(arena_->device()).to(arena_->compute_dtype());
    return model_.net->forward(input, pass).to(DType::f32);
  }
  /// logits -> (N, classes), each row adding up to 1.
  Tensor probabilities(const Tensor& logits) const {
    return whisker::probabilities(logits, model_.output_kind);
  }

  const Model& model() const { return model_; }
  ParameterArena& arena() const { return *arena_; }
  const std::vector<std::string>& classes() const { return classes_; }
  const Preprocess& preprocess() const { return preprocess_; }

 private:
  Model model_;
  std::shared_ptr<ParameterArena> arena_;
  std::vector<std::string> classes_;
  Preprocess preprocess_;
};

/// What a weights file says of itself, in the keys of its safetensors metadata.
struct WeightsInfo {
  std::vector<std::string> classes;
  Preprocess preprocess;
  std::string config;   ///< resolved YAML; "" in files from elsewhere
  std::string arch;     ///< preset; "" when the config lists the layers
  std::string metrics;  ///< JSON of the last validation
  int64_t epoch = 0;

  std::map<std::string, std::string> to_metadata() const;
  static WeightsInfo from_file(const SafetensorsFile& file);
};

}  // namespace whisker
