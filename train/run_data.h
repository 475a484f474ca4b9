// What a run trains and validates on, whatever its kind: batches, what they mean, and a
// fingerprint.
#pragma once

#include "data/batch_source.h"
#include "data/image_folder.h"
#include "data/sampler.h"
#include "train/config.h"
#include "train/signature.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace whisker {

/// The files that a run on pictures trains and validates on.
struct PictureFolders {
  ImageFolder train, val;
};

struct RunData {
  Signature signature;
  std::vector<int64_t> class_counts;  ///< training examples of each class
  int64_t train_size = 0, val_size = 0;
  int64_t steps = 0;  ///< of the longest sequence; 0 for pictures
  std::string fingerprint;
  PictureFolders pictures = {};  ///< until open_picture_loaders() takes them
  std::unique_ptr<BatchSource> train = {}, val = {};
  std::vector<std::string> notes = {};  ///< what a person should know: rows left out

  /// "7,000 training and 1,000 validation pictures in 2 classes".
  std::string describe() const;
  /// Each class with its training examples and their share; "" for other tasks than
  /// classification. Of many classes the first twenty stand for all.
  std::string class_table() const;
};

/// Reads what `config.data` names and makes batches of it; pictures are only listed: see
/// open_picture_loaders(). Needs no device. Throws what reading throws, and usage for data that are
/// not told or cannot be split.
RunData open_data(const Config& config);
/// Makes batches of data.pictures for `device`, whose layers compute in `compute`.
void open_picture_loaders(const Config& config, Device device, DType compute, RunData& data);

/// Pictures; what open_data() does for them.
RunData open_pictures(const Config& config);
/// All other kinds.
RunData open_sequences(const Config& config);

/// The order of an epoch that `config` asks for, over examples with these labels.
std::unique_ptr<Sampler> make_sampler(const Config& config, std::span<const int64_t> labels,
                                      int64_t classes);
/// The first examples of a shuffled order that train.overfit_batches keeps, of `size`.
std::vector<int64_t> overfit_indices(const Config& config, int64_t size);
/// Throws usage unless there is something to train and to validate on.
void check_data_named(const DataConfig& data);

/// How pictures become the network's input, as the data section says.
Preprocess preprocess_of(const DataConfig& data);
/// The same for training pictures, before augmentation: data.train_image_size high and wide.
Preprocess training_preprocess_of(const DataConfig& data);
/// Throws usage unless `model`, built for training pictures, takes those of data.image_size, too.
void check_takes_both_sizes(const Model& model, const DataConfig& data);

/// Classes in data.train; 2 when it is not there, so that a model can be looked at without data.
int64_t class_count(const Config& config);
/// train.batch_size; 32 for auto, so that a model can be looked at without a search.
int64_t shown_batch_size(const Config& config);
/// How the layers of `config` are built for batches of `data`'s training examples.
BuildOptions training_build(const Config& config, const RunData& data);
/// How the layers of `config` are built, for looking at a model: with the classes and the
/// vocabulary of the data where they are there, else with two classes and data.text.max_vocabulary
/// tokens (or 100).
BuildOptions expected_build(const Config& config);

}  // namespace whisker
