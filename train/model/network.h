// A network with everything needed to use it: layers, their memory, and a description of inputs and
// outputs. Saved as one weights file, see docs/reference/formats.md.
#pragma once

#include "core/io/safetensors.h"
#include "core/parameters/parameters.h"
#include "data/dataset.h"
#include "layers/builder/model_builder.h"
#include "layers/weights/preset_of_file.h"
#include "train/model/output_graphs.h"
#include "train/model/signature.h"

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// What a user says of a weights file that says less, or something else.
struct GivenFacts {
  std::vector<std::string> classes = {};
  std::vector<std::string> preprocess = {};  ///< "image_size=288": see changed_preprocess()
  std::string positive_class = {};
  std::string model = {};        ///< the preset that the file holds
  std::string weights_key = {};  ///< of a checkpoint: see open_weights()
};

class Network {
 public:
  Network(Model model, std::shared_ptr<ParameterArena> arena, Signature signature)
      : model_(std::move(model)), arena_(std::move(arena)), signature_(std::move(signature)) {}

  /// Builds the network that a weights file describes and loads it onto `device`, to compute in
  /// `compute`. Throws checkpoint, naming what the file lacks.
  static Network load(const std::filesystem::path& path, Device device,
                      const GivenFacts& given = {}, DType compute = DType::f32);
  /// Loads an open file.
  static Network load(const SafetensorsFile& file, Device device, const GivenFacts& given = {},
                      DType compute = DType::f32);

  /// From now on parameters and statistics stay as they are and no pass trains: batch norms become
  /// part of the layers before them, and with `capture` outputs() of images replays captured
  /// passes on a device that can.
  void fix_weights(bool capture = true);

  /// inputs (N,H,W,C) of images, (T,N,F) or i64 (T,N) of sequences -> f32: logits (N, classes),
  /// or (N, 1) for two classes and a sigmoid; (T, N, tokens) of a language model; (N, outputs) of a
  /// regression. The layers between compute in the arena's compute dtype.
  Tensor outputs(const Tensor& inputs, const Pass& pass = {}) const;
  /// Outputs for a batch's inputs, from its first layer on and with its sequence lengths.
  Tensor outputs(const Batch& batch, Pass pass = {}) const;
  /// What layers [begin, end) of model().net make of `inputs`, in the compute dtype.
  struct LayerRange {
    size_t begin = 0, end = 0;
  };
  Tensor run_layers(LayerRange layers, const Tensor& inputs, const Pass& pass = {}) const;
  /// logits -> the same divided by the temperature of signature().calibration, where there is one.
  Tensor calibrated(const Tensor& logits) const;
  /// logits -> (N, classes), of calibrated(); each row sums to 1.
  Tensor probabilities(const Tensor& logits) const {
    return whisker::probabilities(calibrated(logits), model_.output_kind);
  }

  const Model& model() const { return model_; }
  ParameterArena& arena() const { return *arena_; }
  /// Throws checkpoint, naming the weights, unless `outputs` are finite.
  /// `example` names what they are of.
  void check_outputs(std::span<const float> outputs, std::string_view example) const;
  /// Number of outputs() that were replays.
  int64_t replays() const { return graphs_ ? graphs_->replays() : 0; }
  const Signature& signature() const { return signature_; }
  /// Messages for the user about what load() recognised.
  const std::vector<std::string>& notes() const { return notes_; }
  const std::vector<std::string>& classes() const { return signature_.classes; }
  /// How images, text, ... become inputs; throws usage when the network has another kind of input.
  template <class Description>
  const Description& input() const {
    const auto* found = std::get_if<Description>(&signature_.input);
    if (!found) refuse_input();
    return *found;
  }
  const Preprocess& preprocess() const { return input<Preprocess>(); }

 private:
  [[noreturn]] void refuse_input() const;

  Model model_;
  std::shared_ptr<ParameterArena> arena_;
  Signature signature_;
  std::vector<std::string> notes_;
  std::string file_ = "the network";      // that load() read
  std::shared_ptr<OutputGraphs> graphs_;  // null: outputs() runs eagerly
};

/// A weights file's description, in the keys of its safetensors metadata.
struct WeightsInfo {
  Signature signature;
  std::string config;   ///< resolved YAML; "" in files from elsewhere
  std::string arch;     ///< preset; "" when the config lists the layers
  std::string metrics;  ///< JSON of the last validation
  int64_t epoch = 0;
  std::vector<std::string> notes = {};  ///< messages for the user: what was recognised

  std::map<std::string, std::string> to_metadata() const;
  /// From the metadata; of a file that does not describe its network, or of which `given` says
  /// another one, from preset_of_file, the preset's preprocessing and, of 1,000 classes, ImageNet's
  /// names. Throws usage where `given` contradicts a network that `whisker train` made.
  static WeightsInfo from_file(const SafetensorsFile& file, const GivenFacts& given = {});

  /// The model section of `config`, else of `arch`, and the network built from it and the
  /// signature.
  struct Built {
    YamlNode section;
    Model model;
  };
  /// Throws checkpoint naming `file` where they describe no network.
  Built build(const std::string& file) const;
};

}  // namespace whisker
