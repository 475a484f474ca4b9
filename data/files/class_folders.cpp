#include "data/files/class_folders.h"

#include "core/error.h"
#include "core/io/text.h"
#include "data/files/file_walk.h"
#include "data/files/folder_levels.h"
#include "data/files/split_names.h"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

namespace whisker {
namespace {

namespace fs = std::filesystem;

std::string shown_path(const fs::path& path) {
  return printable(path.string());
}

// cat_train and cat_test beside dog_train: the splits of classes.
std::string reading_of_labels(const std::string& training, const std::string& levels, bool texts) {
  const SplitAndRest name = split_and_rest(training);
  const std::string moved = fmt::format("train/{0}, test/{0} and so on", printable(name.label));
  if (texts) {
    return fmt::format("they are splits of the classes in their names: move them to {}", moved);
  }
  return fmt::format(
      "they are splits of the classes in their names: data.label_pattern='{}{}' reads those of the "
      "training split, a fifth of which validates, and moved to {} they are all read",
      name.pattern, levels, moved);
}

// Throws data where folders may be parts of one data set.
void refuse_parts(const fs::path& root, std::string_view what,
                  const std::vector<std::string>& folders, const CommonFolders& common,
                  bool texts) {
  const bool alike = common.names.size() > 1;
  LikelyParts likely = likely_parts(folders);
  if (likely.names.empty() && !alike) return;
  const std::vector<std::string>& parts = likely.names.empty() ? folders : likely.names;
  const std::string levels = levels_below(root / parts.front(), texts);
  std::string holds = quoted_list(parts), reading;
  if (alike) holds += fmt::format(", which all hold {}", quoted_list(common.names));
  if (likely.labels && !alike) {
    reading = reading_of_labels(parts.front(), levels, texts);
  } else {
    reading = "they are parts of one data set: name ";
    if (likely.names.empty()) {
      reading += "one of them as data.train and another as data.val";
    } else {
      reading +=
          fmt::format("two of them ({}{} data.val={})",
                      what == "--data" ? "--data " : "data.train=", shown_path(root / parts[0]),
                      shown_path(root / parts[1]));
    }
    if (!texts && levels.size() > common.way.size() + 2) {
      reading += fmt::format(", or read all as one by data.label_pattern='*{}/{{label}}{}'",
                             common.way, levels.substr(common.way.size() + 2));
    }
  }
  fail(ErrorKind::data, "{}: {} holds {}. Either {}. Or they are classes: {}.", what,
       shown_path(root), holds, reading,
       texts && alike ? "move their texts out of these folders"
                      : as_classes(root / parts.front(), texts));
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

// The patterns that read an example within `split` of its class, and all of the class.
struct SplitPatterns {
  std::string split = "{label}", all = "{label}";
  bool deeper = false;  // whether the split holds folders
};

SplitPatterns patterns_of(const std::string& path, std::string_view split) {
  SplitPatterns patterns;
  bool passed = false;
  for (size_t begin = path.find('/'); begin != std::string::npos;) {
    const size_t end = path.find('/', begin + 1);
    const bool folder = end != std::string::npos;
    const bool is_split = folder && !passed && path.substr(begin + 1, end - begin - 1) == split;
    patterns.deeper |= folder && passed;
    passed |= is_split;
    patterns.split += is_split ? fmt::format("/{}", split) : "/*";
    patterns.all += "/*";
    begin = end;
  }
  return patterns;
}

}  // namespace

LikelyParts likely_parts(const std::vector<std::string>& names) {
  LikelyParts parts;
  std::ranges::copy_if(names, std::back_inserter(parts.names), is_fold);
  if (parts.names.size() > 1) return parts;
  std::map<std::string, std::map<Split, std::string>> by_rest;  // the names that leave the same
  for (const std::string& name : names) {
    const SplitAndRest found = split_and_rest(name);
    if (found.split != Split::none) by_rest[found.rest].emplace(found.split, name);
  }
  for (const auto& [rest, of] : by_rest) {
    if (of.size() < 2 || !of.contains(Split::train)) continue;
    parts = {.labels = by_rest.size() > 1};
    for (const auto& [split, name] : of) parts.names.push_back(name);
    return parts;
  }
  return {};
}

bool is_class(const fs::path& root, const std::vector<std::string>& named, size_t others) {
  if (named.size() != 1 || others < 2 || split_of_name(named[0]) != Split::train) return false;
  std::error_code error, none;
  for (fs::directory_iterator entry(root / named[0], error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool hidden = name.starts_with('.') || is_system_folder(name);
    if (!hidden && entry->is_directory(none)) return false;
  }
  return true;
}

std::string refuse_splits(const fs::path& root, std::string_view what,
                          const std::vector<std::string>& folders, bool texts) {
  std::vector<std::string> named;
  for (const std::string& folder : folders) {
    if (split_of_name(folder) != Split::none) named.push_back(folder);
  }
  const bool assumed = is_class(root, named, folders.size() - named.size());
  if (!named.empty() && !assumed) {
    const auto train = std::ranges::find(named, Split::train, split_of_name);
    const bool trains = what != "evaluate" && train != named.end();
    const fs::path one = root / (trains ? *train : named.front());
    fail(ErrorKind::data,
         "{}: expected class folders in {}, got {}, which names a split. Name one of the splits "
         "instead ({}), or {} if it is a class.",
         what, shown_path(root), quoted_list(named), shown_path(one), as_classes(one, texts));
  }
  const CommonFolders common = common_folders(root, folders, texts);
  refuse_parts(root, what, folders, common, texts);
  if (assumed) {
    return fmt::format("'{}' is read as a class: it holds no class folders, as a split would",
                       printable(named.front()));
  }
  if (common.numbers.size() < 2) return "";
  std::string note = fmt::format("{} are read as classes, though all hold {}", quoted_list(folders),
                                 quoted_list(common.numbers));
  if (!texts) {
    note +=
        fmt::format(": data.label_pattern='*{}/{{label}}{}' reads these as the classes", common.way,
                    levels_below(root / folders.front(), texts).substr(common.way.size() + 2));
  }
  return note;
}

void SplitsInClasses::add(const std::string& path) {
  const size_t slash = path.find('/');
  if (slash != std::string::npos) within_[path.substr(0, slash)].emplace(split_within(path), path);
}

void SplitsInClasses::refuse(const fs::path& root, std::string_view what, bool texts) const {
  struct Example {
    std::string split, class_name, path;
  };
  std::map<Split, Example> one_each;
  Example example;
  std::string found;
  for (const auto& [name, splits] : within_) {
    std::vector<std::string> named;
    for (const auto& [split, path] : splits) {
      if (!split.empty()) named.push_back(split);
    }
    if (named.empty()) continue;
    const auto training = std::ranges::find(named, Split::train, split_of_name);
    const std::string& split = training == named.end() ? named.front() : *training;
    example = {.split = split, .class_name = name, .path = splits.at(split)};
    one_each.emplace(split_of_name(example.split), example);
    if (splits.size() > 1) {
      found = fmt::format("class folder {} holds {}, the name{}{}", shown_path(root / name),
                          quoted_list(named), named.size() > 1 ? "s of splits" : " of a split",
                          splits.contains("") ? ", and other examples" : "");
      break;
    }
  }
  if (found.empty() && one_each.size() > 1) {
    example = one_each.begin()->second;
    const Example& other = one_each.rbegin()->second;
    found = fmt::format("class folder {} holds '{}' and {} '{}', the names of two splits",
                        shown_path(root / example.class_name), printable(example.split),
                        shown_path(root / other.class_name), printable(other.split));
  }
  if (found.empty()) return;
  const SplitPatterns patterns = patterns_of(example.path, example.split);
  fail(ErrorKind::data,
       "{}: {}. Either they are splits: {}moved to {}/{} they are all read. Or all are examples of "
       "their class: {}.{}",
       what, found,
       texts ? ""
             : fmt::format("data.label_pattern='{}' reads one of them, and ",
                           printable(patterns.split)),
       printable(example.split), printable(example.class_name),
       texts ? "rename them" : fmt::format("data.label_pattern='{}'", patterns.all),
       patterns.deeper ? fmt::format(" Or each is a data set of its own: name one, such as {}.",
                                     shown_path(root / example.class_name))
                       : "");
}

}  // namespace whisker
