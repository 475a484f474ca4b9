#include "data/files/split_folders.h"

#include "core/error.h"
#include "core/io/text.h"

#include <algorithm>
#include <iterator>
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

// How files of class folders are read as such: what a message advises.
std::string as_classes(const fs::path& folder, bool texts) {
  if (texts) return "rename them";
  return fmt::format("set data.label_pattern (--label-pattern) to '{{label}}/{}'",
                     entries_of(folder).folders.empty() ? "*" : "*/*");
}

// How many names all `folders` have a subfolder of, numbers apart; 0 when one has own images.
int64_t common_subfolders(const fs::path& root, const std::vector<std::string>& folders) {
  std::map<std::string, size_t> counts;
  for (const std::string& folder : folders) {
    const Entries inside = entries_of(root / folder);
    if (std::ranges::any_of(inside.files, [](const auto& file) { return has_image_name(file); })) {
      return 0;
    }
    for (const std::string& name : inside.folders) {
      if (name.find_first_not_of("0123456789") != std::string::npos) ++counts[name];
    }
  }
  return std::ranges::count_if(counts,
                               [&](const auto& one) { return one.second == folders.size(); });
}

// The first folder on the way to `path`, behind its class folder, whose name is a split's.
std::string split_within(const std::string& path) {
  size_t begin = path.find('/');
  while (begin != std::string::npos) {
    const size_t end = path.find('/', begin + 1);
    if (end == std::string::npos) break;
    std::string name = path.substr(begin + 1, end - begin - 1);
    if (split_of_name(name) != Split::none) return name;
    begin = end;
  }
  return {};
}

// Whether the only folder with the name of a split is a class beside `others`: unlike a test set's,
// training data without class folders would be of no use.
bool is_class(const fs::path& root, const std::vector<std::string>& named, size_t others) {
  return named.size() == 1 && others > 1 && split_of_name(named[0]) == Split::train &&
         entries_of(root / named[0]).folders.empty();
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
  if (named.empty()) return std::nullopt;
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
            : fmt::format("the former alone are the data, as splits: data.train={}",
                          shown(splits.train));
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

std::vector<std::string> likely_parts(const fs::path& root, const std::vector<std::string>& names) {
  std::vector<std::string> folds;
  std::ranges::copy_if(names, std::back_inserter(folds), is_fold);
  if (folds.size() > 1) return folds;
  std::map<std::string, std::map<Split, std::string>> by_rest;  // the names that leave the same
  for (const std::string& name : names) {
    const auto [split, rest] = split_and_rest(name);
    if (split != Split::none) by_rest[rest].emplace(split, name);
  }
  for (const auto& [rest, of] : by_rest) {
    if (of.size() < 2 || !of.contains(Split::train)) continue;
    std::vector<std::string> pair;
    for (const auto& [split, name] : of) pair.push_back(name);
    return pair;
  }
  const bool may_be_parts = !by_rest.empty() || std::ranges::count_if(names, is_numbered_part) > 1;
  if (may_be_parts && names.size() > 1 && common_subfolders(root, names) > 1) return names;
  return {};
}

std::string refuse_splits(const fs::path& root, std::string_view what,
                          const std::vector<std::string>& folders, bool texts) {
  std::vector<std::string> named;
  for (const std::string& folder : folders) {
    if (split_of_name(folder) != Split::none) named.push_back(folder);
  }
  const bool assumed = is_class(root, named, folders.size() - named.size());
  if (!named.empty() && !assumed) {
    fail(ErrorKind::data,
         "{}: expected class folders in {}, got {}, which names a split. Name one of the splits "
         "instead ({}), or {} if it is a class.",
         what, shown(root), quoted_list(named), shown(root / named.front()),
         as_classes(root / named.front(), texts));
  }
  if (const std::vector<std::string> parts = likely_parts(root, folders); !parts.empty()) {
    const std::string pattern = as_classes(root / parts.front(), texts);
    const bool all_labelled = !texts && pattern.find("*/*") != std::string::npos;
    fail(ErrorKind::data,
         "{}: {} holds {}. Either they are parts of one data set: name two of them (data.train={} "
         "data.val={}){}. Or they are classes: {}.",
         what, shown(root), quoted_list(parts), shown(root / parts[0]), shown(root / parts[1]),
         all_labelled ? ", or read all as one by data.label_pattern='*/{label}/*'" : "", pattern);
  }
  if (!assumed) return "";
  return fmt::format("'{}' is read as a class: it holds no class folders, as a split would",
                     printable(named.front()));
}

void SplitsInClasses::add(const std::string& path) {
  const size_t slash = path.find('/');
  if (slash != std::string::npos) within_[path.substr(0, slash)].insert(split_within(path));
}

void SplitsInClasses::refuse(const fs::path& root, std::string_view what, bool texts) const {
  std::map<Split, std::pair<std::string, std::string>> one_each;  // a folder and its class
  std::string found;
  std::pair<std::string, std::string> example;
  for (const auto& [name, splits] : within_) {
    std::vector<std::string> named(splits.begin(), splits.end());
    std::erase(named, "");
    if (named.empty()) continue;
    example = {named.front(), name};
    one_each.emplace(split_of_name(named.front()), example);
    if (splits.size() > 1) {
      found = fmt::format("class folder {} holds {} of the name of a split, and other examples",
                          shown(root / name), quoted_list(named));
      break;
    }
  }
  if (found.empty() && one_each.size() > 1) {
    example = one_each.begin()->second;
    const auto& [other, other_class] = one_each.rbegin()->second;
    found = fmt::format("class folder {} holds '{}' and {} '{}', the names of two splits",
                        shown(root / example.second), printable(example.first),
                        shown(root / other_class), printable(other));
  }
  if (found.empty()) return;
  const std::string split = printable(example.first);
  fail(ErrorKind::data,
       "{}: {}. Either they are splits: {}moved to {}/{} they are all read. Or all are examples of "
       "their class: {}.",
       what, found,
       texts ? ""
             : fmt::format("data.label_pattern='{{label}}/{}/*' reads one of them, and ", split),
       split, printable(example.second),
       texts ? "rename them" : "data.label_pattern='{label}/*/*'");
}

}  // namespace whisker
