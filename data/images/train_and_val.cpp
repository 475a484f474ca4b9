// Folders of training and validation images against each other: the same classes, and parts of one.
#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "data/images/file_stamps.h"
#include "data/images/image_folder.h"
#include "data/sequences/validation_split.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace whisker {
namespace {

std::string only_in(const std::vector<std::string>& names, const std::vector<std::string>& other) {
  const std::vector<std::string> own = names_not_in(names, other);
  return own.empty() ? "none" : quoted_list(own);
}

}  // namespace

void adopt_class_names(const ImageFolder& train, ImageFolder& val) {
  NormalisedNames normalised;
  std::vector<std::string> names = val.classes;
  for (std::string& name : names) {
    const std::optional<int64_t> number = class_number(train.classes, name);
    if (!number) continue;
    const std::string& known = train.classes[static_cast<size_t>(*number)];
    if (std::ranges::find(names, known) != names.end()) continue;
    normalised.add(name, known);
    name = known;
  }
  const std::string note = normalised.note("name of a class", "names of classes");
  if (note.empty()) return;
  val.notes.push_back(note);
  std::vector<std::string> sorted = names;
  std::ranges::sort(sorted);
  for (ImageFile& file : val.files) {
    const std::string& name = names[static_cast<size_t>(file.label)];
    file.label = std::ranges::find(sorted, name) - sorted.begin();
  }
  val.classes = std::move(sorted);
}

void check_same_classes(const ImageFolder& train, const ImageFolder& val) {
  if (train.classes == val.classes) return;
  fail(
      ErrorKind::data,
      "data: train and val differ in their classes; only in train ({}): {}; only in val ({}): {}. "
      "Training accepts classes that val lacks, but none that train lacks: rename or remove these.",
      printable(train.root.string()), only_in(train.classes, val.classes),
      printable(val.root.string()), only_in(val.classes, train.classes));
}

std::string SplitFolder::note() const {
  if (copies == 0) return {};
  return fmt::format("{} identical to another; identical images stay in the same split",
                     counted(copies, "image"));
}

SplitFolder split_stratified(ImageFolder folder, double fraction, uint64_t seed) {
  std::vector<uint64_t> sizes;
  for (const ImageFile& file : folder.files) sizes.push_back(file.bytes);
  const std::vector<int64_t> originals = find_copies(sizes, [&](int64_t i) {
    return folder.files[static_cast<size_t>(i)].content = content_hash(folder.file(i));
  });
  const std::vector<bool> in_val =
      choose_validation(folder.labels(), folder.classes, fraction, seed, originals);
  std::vector<int64_t> copied = originals;  // empty files are no images, and contradict nothing
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) copied[i] = static_cast<int64_t>(i);
  }
  SplitFolder split;
  split.contradictions = find_contradictions(copied, folder.labels());
  for (ImageFolder* part : {&split.train, &split.val}) {
    part->root = folder.root;
    part->classes = folder.classes;
  }
  split.train.skipped = folder.skipped;
  split.train.notes = folder.notes;
  for (size_t i = 0; i < folder.files.size(); ++i) {
    (in_val[i] ? split.val : split.train).files.push_back(folder.files[i]);
    split.copies += copied[i] != static_cast<int64_t>(i);
  }
  return split;
}

}  // namespace whisker
