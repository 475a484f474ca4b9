// Image folders against each other: the same classes, the same files, and parts of one.
#include "core/error.h"
#include "core/io/hash.h"
#include "data/held_back.h"
#include "data/image_folder.h"

#include <algorithm>
#include <array>

namespace whisker {
namespace {

std::string only_in(const std::vector<std::string>& names, const std::vector<std::string>& other) {
  std::vector<std::string> own;
  for (const std::string& name : names) {
    if (std::find(other.begin(), other.end(), name) == other.end()) own.push_back(name);
  }
  return own.empty() ? "none" : quoted_list(own);
}

void update_with_number(Hash64& hash, uint64_t number) {
  std::array<char, 8> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(number >> (8 * i));
  hash.update(std::string_view(bytes.data(), bytes.size()));
}

/// Length first, so that no two lists of names hash alike by running into each other.
void update_with_name(Hash64& hash, std::string_view name) {
  update_with_number(hash, name.size());
  hash.update(name);
}

}  // namespace

void check_same_classes(const ImageFolder& train, const ImageFolder& val) {
  if (train.classes == val.classes) return;
  fail(ErrorKind::data,
       "data: train and val must have the same classes; only in train ({}): {}; only in val ({}): "
       "{}. Rename or remove folders until both lists agree.",
       printable(train.root.string()), only_in(train.classes, val.classes),
       printable(val.root.string()), only_in(val.classes, train.classes));
}

std::string fingerprint(const ImageFolder& folder) {
  Hash64 hash;
  for (const PictureFile& file : folder.files) {
    update_with_name(hash, file.path);
    update_with_number(hash, file.bytes);
    update_with_name(hash, folder.classes[static_cast<size_t>(file.label)]);
  }
  return hash.hex();
}

SplitFolder split_stratified(const ImageFolder& folder, double fraction, uint64_t seed) {
  const std::vector<bool> in_val = hold_back(folder.labels(), folder.classes, fraction, seed);
  SplitFolder split;
  for (ImageFolder* part : {&split.train, &split.val}) {
    part->root = folder.root;
    part->classes = folder.classes;
  }
  split.train.skipped = folder.skipped;
  for (size_t i = 0; i < folder.files.size(); ++i) {
    (in_val[i] ? split.val : split.train).files.push_back(folder.files[i]);
  }
  return split;
}

}  // namespace whisker
