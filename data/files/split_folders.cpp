#include "data/files/split_folders.h"

#include "core/error.h"
#include "core/io/text.h"
#include "data/files/class_folders.h"
#include "data/files/folder_levels.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace whisker {
namespace {

namespace fs = std::filesystem;

struct Entries {
  std::vector<std::string> folders, files;  // visible, sorted bytewise
};

Entries entries_of(const fs::path& root) {
  Entries entries;
  std::error_code error;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.starts_with('.') || is_system_folder(name)) continue;
    std::error_code none;
    (entry->is_directory(none) ? entries.folders : entries.files).push_back(std::move(name));
  }
  std::ranges::sort(entries.folders);
  std::ranges::sort(entries.files);
  return entries;
}

std::string shown(const fs::path& path) {
  return printable(path.string());
}

std::string setting(std::string_view key, const fs::path& path) {
  return path.empty() ? "" : fmt::format(" {}{}", key, shown(path));
}

// The folder below `root` that holds the splits, as data/train and data/val in an archive; empty
// where none does, or several do.
fs::path find_wrapped(const fs::path& root, const std::vector<std::string>& folders,
                      const SplitSearch& search) {
  fs::path found;
  for (const std::string& name : folders) {
    fs::path folder = root / name;
    std::vector<std::string> inside = folders_alone(folder, search.texts);
    const auto is_wrapper = [&] {
      return inside.size() == 1 && split_of_name(inside[0]) == Split::none;
    };
    for (int level = 0; level < most_folder_levels && is_wrapper(); ++level) {
      folder /= inside.front();
      inside = folders_alone(folder, search.texts);
    }
    const auto train = std::ranges::find(inside, Split::train, split_of_name);
    if (train == inside.end()) continue;
    const bool around_classes = folders.size() == 1 || search.labels_in_names ||
                                !folders_alone(folder / *train, search.texts).empty();
    if (!around_classes || !search.holds_examples(folder / *train)) continue;
    if (!found.empty()) return {};
    found = std::move(folder);
  }
  return found;
}

void refuse_wrapped(const fs::path& root, const std::vector<std::string>& folders,
                    const SplitSearch& search) {
  const fs::path wrapped = find_wrapped(root, folders, search);
  if (wrapped.empty()) return;
  std::vector<std::string> splits = folders_alone(wrapped, search.texts);
  std::erase_if(splits, [](const auto& name) { return split_of_name(name) == Split::none; });
  const fs::path train = wrapped / *std::ranges::find(splits, Split::train, split_of_name);
  std::string above;
  for ([[maybe_unused]] const fs::path& level : wrapped.lexically_relative(root)) above += "/*";
  const bool may_be_classes = folders.size() > 1 && !search.labels_in_names && !search.texts;
  fail(ErrorKind::data, "{}: the splits {} lie in {}. Name that folder instead of {}.{}",
       search.what, quoted_list(splits), shown(wrapped), shown(root),
       may_be_classes ? fmt::format(" Or, if {} are classes: {}.", quoted_list(folders),
                                    as_classes(train, search.texts, above))
                      : "");
}

}  // namespace

std::optional<SplitFolders> find_splits(const fs::path& root, const SplitSearch& search) {
  const Entries entries = entries_of(root);
  SplitFolders splits{.train = {}, .val = {}, .test = {}, .others = entries.files};
  std::vector<std::string> named, classes;
  for (const std::string& folder : entries.folders) {
    const Split split = split_of_name(folder);
    if (split == Split::none) continue;
    fs::path& path = split == Split::train ? splits.train
                     : split == Split::val ? splits.val
                                           : splits.test;
    if (!path.empty()) {
      if (!search.holds_examples(root / folder)) {  // train_txt beside train
        splits.others.push_back(folder);
        continue;
      }
      if (!search.holds_examples(path)) {  // train behind labels_train
        const std::string empty = path.filename().string();
        std::erase(named, empty);
        splits.others.push_back(empty);
        named.push_back(folder);
        path = root / folder;
        continue;
      }
      fail(ErrorKind::data,
           "{}: '{}' and '{}' in {} both have the name of one split: is one of them another split, "
           "or are they classes? Rename one, name the folders (data.train=..., data.val=...), or "
           "{} for classes.",
           search.what, printable(path.filename().string()), printable(folder), shown(root),
           as_classes(path, search.texts));
    }
    named.push_back(folder);
    path = root / folder;
  }
  if (named.empty()) {
    refuse_wrapped(root, entries.folders, search);
    return std::nullopt;
  }
  for (const std::string& folder : entries.folders) {
    if (split_of_name(folder) != Split::none) continue;
    (search.holds_examples(root / folder) ? classes : splits.others).push_back(folder);
  }
  if (!search.labels_in_names && is_class(root, named, classes.size())) return std::nullopt;
  if (!classes.empty()) {
    const std::string split =
        splits.train.empty()
            ? fmt::format(
                  "the former is a split: move it out of {}, and name it (data.val=, "
                  "data.test=) if it holds class folders",
                  shown(root))
            : fmt::format(
                  "the former alone are the data, as splits:{}{}{}",
                  setting(search.what == "--data" ? "--data " : "data.train=", splits.train),
                  setting("data.val=", splits.val), setting("data.test=", splits.test));
    fail(ErrorKind::data, "{}: {} holds {} beside {}. Either all of them are classes: {}. Or {}.",
         search.what, shown(root), quoted_list(named), quoted_list(classes),
         as_classes(root / classes.front(), search.texts), split);
  }
  if (splits.train.empty()) {
    fail(ErrorKind::data,
         "{}: {} holds {}, but no folder of training data such as 'train'. Name the folders: "
         "data.train=..., data.val=....",
         search.what, shown(root), quoted_list(named));
  }
  return splits;
}

}  // namespace whisker
