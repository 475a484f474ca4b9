#include "data/files/split_folders.h"

#include "core/error.h"
#include "core/io/text.h"

#include <algorithm>
#include <array>
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

}  // namespace

Split split_of_name(std::string_view name) {
  std::string word;
  for (const char c : name) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool other = static_cast<unsigned char>(c) >= 0x80;
    if (upper || other || (c >= 'a' && c <= 'z')) {
      word += upper ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  for (const std::string_view part : {"seg", "set", "images"}) {
    for (size_t at = word.find(part); at != std::string::npos; at = word.find(part)) {
      word.erase(at, part.size());
    }
  }
  constexpr std::array<std::pair<std::string_view, Split>, 9> words = {{{"train", Split::train},
                                                                        {"training", Split::train},
                                                                        {"val", Split::val},
                                                                        {"valid", Split::val},
                                                                        {"validation", Split::val},
                                                                        {"dev", Split::val},
                                                                        {"eval", Split::val},
                                                                        {"test", Split::test},
                                                                        {"testing", Split::test}}};
  const auto* found = std::ranges::find(words, word, [](const auto& one) { return one.first; });
  return found == words.end() ? Split::none : found->second;
}

std::optional<SplitFolders> find_splits(const fs::path& root, std::string_view what,
                                        const HoldsExamples& holds_examples) {
  const Entries entries = entries_of(root);
  SplitFolders splits{.train = {}, .val = {}, .test = {}, .others = entries.files};
  std::vector<std::string> named, classes;
  for (const std::string& folder : entries.folders) {
    const Split split = split_of_name(folder);
    if (split == Split::none) continue;
    named.push_back(folder);
    fs::path& path = split == Split::train ? splits.train
                     : split == Split::val ? splits.val
                                           : splits.test;
    if (!path.empty()) {
      fail(ErrorKind::data,
           "{}: '{}' and '{}' in {} both have the name of one split: is one of them another split, "
           "or are they classes? Rename one, name the folders (data.train=..., data.val=...), or "
           "set data.label_pattern='{{label}}/*' for classes.",
           what, printable(path.filename().string()), printable(folder), shown(root));
    }
    path = root / folder;
  }
  if (named.empty()) return std::nullopt;
  for (const std::string& folder : entries.folders) {
    if (split_of_name(folder) != Split::none) continue;
    (holds_examples(root / folder) ? classes : splits.others).push_back(folder);
  }
  if (!classes.empty()) {
    const std::string split =
        splits.train.empty()
            ? fmt::format(
                  "the former is a split: move it out of {}, and name it (data.val=, "
                  "data.test=) if it holds class folders",
                  shown(root))
            : fmt::format("the former alone are the data, as splits: data.train={}",
                          shown(splits.train));
    fail(ErrorKind::data,
         "{}: {} holds {} beside {}. Either all of them are classes: data.label_pattern="
         "'{{label}}/*' (--label-pattern). Or {}.",
         what, shown(root), quoted_list(named), quoted_list(classes), split);
  }
  if (splits.train.empty()) {
    fail(ErrorKind::data,
         "{}: {} holds {}, but no folder of training data such as 'train'. Name the folders: "
         "data.train=..., data.val=....",
         what, shown(root), quoted_list(named));
  }
  return splits;
}

void refuse_splits(const fs::path& root, std::string_view what,
                   const std::vector<std::string>& folders,
                   const std::vector<std::string>& classes) {
  std::vector<std::string> named;
  for (const std::string& folder : folders) {
    if (split_of_name(folder) == Split::none) continue;
    if (std::ranges::find(classes, folder) == classes.end()) named.push_back(folder);
  }
  if (named.empty()) return;
  fail(ErrorKind::data,
       "{}: expected class folders in {}, got {}, which names a split. Name one of the splits "
       "instead ({}), or set data.label_pattern (--label-pattern) to '{{label}}/*' if it is a "
       "class.",
       what, shown(root), quoted_list(named), shown(root / named.front()));
}

void SplitsInClasses::add(const std::string& path) {
  const size_t slash = path.find('/');
  if (slash != std::string::npos) within_[path.substr(0, slash)].insert(split_within(path));
}

void SplitsInClasses::refuse(const fs::path& root, std::string_view what) const {
  for (const auto& [name, splits] : within_) {
    if (splits.size() < 2) continue;
    std::vector<std::string> named(splits.begin(), splits.end());
    std::erase(named, "");
    fail(ErrorKind::data,
         "{}: class folder {} holds {} of the name of a split, and other examples. Either they are "
         "splits: data.label_pattern='{{label}}/{}/*' reads one of them, and moved to {}/{} they "
         "are all read. Or all examples are of class '{}': data.label_pattern='{{label}}/*/*'.",
         what, shown(root / name), quoted_list(named), printable(named.front()),
         printable(named.front()), printable(name), printable(name));
  }
}

}  // namespace whisker
