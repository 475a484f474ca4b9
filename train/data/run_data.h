// The data of a run, of any kind: batches, their meaning, and a fingerprint.
#pragma once

#include "data/batch_source.h"
#include "data/images/image_folder.h"
#include "data/sampler.h"
#include "data/sequences/sequence_example.h"
#include "train/config/config.h"
#include "train/config/preprocess_config.h"
#include "train/model/signature.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

class ImageDataset;

/// The files that a run on images trains, validates and is tested on; without data.test no last.
struct ImageFolders {
  ImageFolder train, val;
  ImageFolder test = {};
};

struct RunData {
  Signature signature;
  std::vector<int64_t> class_counts;  ///< training examples of each class
  int64_t train_size = 0, val_size = 0;
  int64_t steps = 0;    ///< of the longest sequence; 0 for images
  bool uneven = false;  ///< training sequences differ in length, so that batches have lengths
  Partition part = {};  ///< of each batch, that this rank reads
  /// A hash of the data read here; of images, of their paths, sizes and labels.
  std::string fingerprint;
  ImageFolders images = {};
  /// The datasets of image loaders, with the stamps of all images; null for other data.
  std::shared_ptr<ImageDataset> train_images = {}, val_images = {};
  std::unique_ptr<BatchSource> train = {}, val = {};
  /// Hashes of the contents, by the index in batches; of language models of lines of
  /// least_line_bytes or more, of images none: see ImageFile::content.
  std::vector<uint64_t> train_contents = {}, val_contents = {};
  /// By the index in batches, what tells a validation example in other runs: hashes of texts, of
  /// the values of rows, and of SequenceSet::hashes. Empty for other data.
  std::vector<uint64_t> val_hashes = {};
  /// Examples of texts and rows, by the index in batches: with KeepExamples::yes.
  std::vector<SequenceExample> train_examples = {}, val_examples = {};
  /// "file:line" or the file of validation texts and rows, as messages name it, relative to the
  /// data's folder.
  std::vector<std::string> val_places = {};
  /// With features: cached, the training images in order and as validation sees images.
  std::unique_ptr<BatchSource> plain_train = {};
  std::vector<std::string> val_lacks = {};  ///< classes that validation has no examples of
  std::vector<std::string> left_out = {};   ///< skipped rows or texts, and why
  std::vector<std::string> notes = {};      ///< other messages for the user

  /// What `count` of the images get of a limit that training and validation share.
  double fraction_of(int64_t count) const {
    return static_cast<double>(count) / static_cast<double>(train_size + val_size);
  }
  /// The path of each validation image, text or row, relative to the data's folder; a line's is
  /// "file:line". Empty for other data.
  std::vector<std::string> val_paths() const;
  /// "7,000 training and 1,000 validation images in 2 classes".
  std::string describe() const;
  /// Number and fraction of training examples of each class, of the first twenty; "" unless the
  /// task is classification.
  std::string class_table() const;
};

/// Whether texts and rows are kept as they stand in the data, beside the numbers they become.
enum class KeepExamples : bool { no, yes };

/// Reads the data of `config.data` and makes batches, of each the rows of `part`; images are only
/// listed: see open_image_loaders(). Needs no device. Throws what reading throws, and usage for
/// data that are not given or cannot be split.
RunData open_data(const Config& config, Partition part = {}, KeepExamples keep = KeepExamples::no);
/// Makes batches of data.images for `device`, whose layers compute in `compute`.
void open_image_loaders(const Config& config, Device device, DType compute, RunData& data);

/// `data.gpu_decode: auto` in percent: as measured for ResNet-18 in bf16 on an H200, where the CPU
/// alone keeps up with 16 cores (docs/performance.md, From JPEG files).
int64_t auto_gpu_decode(int64_t cores);
/// Who decodes, where `decoder` decodes `share` percent; `chosen` says why that many, if not given.
std::string gpu_decode_note(int64_t share, std::string_view chosen, std::string_view decoder);

/// open_data() for images.
RunData open_images(const Config& config, Partition part = {});
/// open_data() for all other kinds.
RunData open_sequences(const Config& config, Partition part = {},
                       KeepExamples keep = KeepExamples::no);

/// The epoch order that `config` sets, over examples with these labels.
std::unique_ptr<Sampler> make_sampler(const Config& config, std::span<const int64_t> labels,
                                      int64_t classes);
/// The indices, below `size`, that train.overfit_batches keeps: the first of a shuffled order.
std::vector<int64_t> overfit_indices(const Config& config, int64_t size);
/// The classes that none of the labels is of.
std::vector<std::string> absent_classes(std::span<const int64_t> labels,
                                        std::span<const std::string> classes);
/// Says which classes the validation data, named `set`, have no examples of (`examples`: their
/// name); "" where they have all. A validation set may lack classes.
std::string missing_classes(std::span<const int64_t> val_labels,
                            std::span<const std::string> classes, std::string_view examples,
                            std::string_view set, std::string_view measured = "validation");
/// Throws usage unless training data are given, data for a path that does not exist.
void check_data_named(const DataConfig& data);

/// Throws usage unless `model`, built for training images, also accepts images of data.image_size.
void check_takes_both_sizes(const Model& model, const DataConfig& data);

/// Number of classes in data.train; 2 when it is missing, so that a model can be shown without
/// data.
int64_t class_count(const Config& config);
/// train.batch_size; 32 for auto, so that a model can be shown without a search.
int64_t shown_batch_size(const Config& config);
/// How the layers of `config` are built for batches of `data`'s training examples.
BuildOptions training_build(const Config& config, const RunData& data);
/// How the layers of `config` are built to show a model: with the data's classes and vocabulary if
/// there are data, else with two classes and data.text.max_vocabulary tokens (or 100).
BuildOptions expected_build(const Config& config);

}  // namespace whisker
