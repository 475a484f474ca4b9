// Listing pictures and naming what is wrong with a folder.
#include "data/image_folder.h"

#include "core/error.h"
#include "core/io/file.h"
#include "core/io/utf8.h"
#include "data/csv.h"
#include "data/label_pattern.h"
#include "data/unread_formats.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

namespace whisker {
namespace {

constexpr size_t max_csv_bytes = size_t{1} << 30;

/// Files with the class name of each, before classes become numbers.
struct Named {
  std::vector<PictureFile> files;
  std::vector<std::string> labels;
  std::vector<SkippedFile> skipped;
  std::vector<SkippedFile> unreadable;
};

void check_root(const std::filesystem::path& root, const std::string& name) {
  std::error_code ignored;
  const auto status = std::filesystem::status(root, ignored);
  const std::string shown = printable(root.string());
  if (!std::filesystem::exists(status)) {
    fail(ErrorKind::data, "{}: expected a folder, but {} does not exist{}.", name, shown,
         root.is_relative()
             ? fmt::format(" in {}", printable(std::filesystem::current_path(ignored).string()))
             : std::string());
  }
  if (!std::filesystem::is_directory(status)) {
    fail(ErrorKind::data,
         "{}: expected a folder, but {} is a file. An archive is unpacked by `whisker data "
         "arrange`.",
         name, shown);
  }
}

/// The user gave the folder that holds train/ and val/ instead of one of them.
void refuse_parent_of_splits(const std::filesystem::path& root, const std::string& name,
                             const std::vector<std::string>& folders) {
  static const std::set<std::string> splits = {"train", "val", "valid", "validation", "test"};
  const bool all_splits = std::all_of(folders.begin(), folders.end(),
                                      [](const auto& folder) { return splits.contains(folder); });
  if (folders.size() < 2 || !all_splits) return;
  fail(ErrorKind::data,
       "{}: expected class folders in {}, got {}. Name one of these folders (data.train=..., "
       "data.val=...).",
       name, printable(root.string()), quoted_list(folders));
}

Named from_folders(const std::filesystem::path& root, FileWalk walk,
                   const ImageFolderOptions& options) {
  refuse_parent_of_splits(root, options.name, walk.folders);
  Named named;
  named.skipped = std::move(walk.skipped);
  named.unreadable = std::move(walk.unreadable);
  std::map<std::string, int64_t> counts;
  for (const std::string& folder : walk.folders) counts[folder] = 0;
  int64_t loose = 0;
  for (WalkedFile& file : walk.files) {
    const size_t slash = file.path.find('/');
    if (!is_picture(root, file.path)) {
      named.skipped.push_back({std::move(file.path), "not a JPEG, PNG or BMP picture"});
    } else if (slash == std::string::npos) {
      ++loose;
      named.skipped.push_back({std::move(file.path), "not in a class folder"});
    } else {
      ++counts[file.path.substr(0, slash)];
      named.labels.push_back(file.path.substr(0, slash));
      named.files.push_back({.path = std::move(file.path), .bytes = file.bytes});
    }
  }
  const std::string shown = printable(root.string());
  if (named.files.empty() && loose > 0) {
    fail(ErrorKind::data,
         "{}: expected one folder per class in {}, got {} pictures without. If their names tell "
         "the class, as in cat.0.jpg, set data.label_pattern (or --label-pattern) to "
         "'{{label}}.*.jpg' or run `whisker data arrange`.",
         options.name, shown, loose);
  }
  if (named.files.empty()) {
    const std::string unread = unread_formats(named.skipped);
    fail(ErrorKind::data,
         "{}: expected pictures in class folders, as in {}/cat/1.jpg; {} folders and {} other "
         "files{} are there, but no JPEG, PNG or BMP.",
         options.name, shown, walk.folders.size(), named.skipped.size(),
         unread.empty() ? std::string() : fmt::format(" ({})", unread));
  }
  std::vector<std::string> empty_classes;
  for (const auto& [folder, count] : counts) {
    if (count == 0) empty_classes.push_back(folder);
  }
  if (!empty_classes.empty() && options.classes.empty()) {
    const std::string unread = unread_formats(named.skipped);
    fail(ErrorKind::data,
         "{}: no pictures in the class folders {} of {}. Remove these folders or fill them.{}",
         options.name, quoted_list(empty_classes), shown,
         unread.empty() ? std::string()
                        : fmt::format(" JPEG, PNG and BMP are read, {} are there.", unread));
  }
  return named;
}

Named from_names(const std::filesystem::path& root, FileWalk walk,
                 const ImageFolderOptions& options) {
  const LabelPattern pattern(options.label_pattern);
  Named named;
  named.skipped = std::move(walk.skipped);
  named.unreadable = std::move(walk.unreadable);
  std::string unmatched;
  for (WalkedFile& file : walk.files) {
    if (!is_picture(root, file.path)) {
      named.skipped.push_back({std::move(file.path), "not a JPEG, PNG or BMP picture"});
    } else if (std::optional<std::string> label = pattern.match(file.path)) {
      named.labels.push_back(std::move(*label));
      named.files.push_back({.path = std::move(file.path), .bytes = file.bytes});
    } else {
      unmatched = file.path;
      named.skipped.push_back({std::move(file.path), "name does not match data.label_pattern"});
    }
  }
  if (named.files.empty()) {
    const std::string got =
        unmatched.empty() ? "no pictures" : fmt::format("'{}'", printable(unmatched));
    fail(ErrorKind::data, "{}: expected names that match data.label_pattern '{}' in {}, got {}.",
         options.name, options.label_pattern, printable(root.string()), got);
  }
  return named;
}

Named from_csv(const std::filesystem::path& root, const ImageFolderOptions& options) {
  const std::string name = printable(options.csv.string());
  const std::vector<CsvRow> rows =
      parse_csv(read_file(options.csv, max_csv_bytes, ErrorKind::data), name);
  if (rows.size() < 2) fail(ErrorKind::data, "{}: expected a header and rows, got none.", name);
  const auto column = [&](std::string_view wanted) {
    const auto& header = rows.front().fields;
    const auto found = std::find(header.begin(), header.end(), wanted);
    if (found == header.end()) {
      fail(ErrorKind::data, "{}:{}: expected a header with the columns path and label, got {}.",
           name, rows.front().line, quoted_list(header));
    }
    return static_cast<size_t>(found - header.begin());
  };
  const size_t path = column("path");
  const size_t label = column("label");
  std::map<std::string, int> lines;
  std::map<std::string, std::pair<uint64_t, std::string>> sorted;
  Named named;
  for (size_t i = 1; i < rows.size(); ++i) {
    const CsvRow& row = rows[i];
    const std::string& file = row.fields[path];
    std::error_code error;
    const bool regular = std::filesystem::is_regular_file(root / file, error);
    const uint64_t bytes = regular ? std::filesystem::file_size(root / file, error) : 0;
    if ((!regular || error) && options.on_unreadable == OnUnreadable::fail) {
      fail(ErrorKind::data, "{}:{}: expected a file below {}, but '{}' is none.", name, row.line,
           printable(root.string()), printable(file));
    }
    if (row.fields[label].empty()) {
      fail(ErrorKind::data, "{}:{}: '{}' has no label.", name, row.line, printable(file));
    }
    if (!sorted.emplace(file, std::pair(bytes, row.fields[label])).second) {
      fail(ErrorKind::data, "{}:{}: '{}' is listed in line {} already.", name, row.line,
           printable(file), lines[file]);
    }
    lines[file] = row.line;
    if (!regular || error) {
      named.unreadable.push_back({file, "no such file"});
      sorted.erase(file);
    }
  }
  for (auto& [file, rest] : sorted) {
    named.files.push_back({.path = file, .bytes = rest.first});
    named.labels.push_back(std::move(rest.second));
  }
  return named;
}

/// Turns class names into numbers, by the given table or by the sorted names found.
ImageFolder number_classes(const std::filesystem::path& root, Named named,
                           const ImageFolderOptions& options) {
  const std::set<std::string> found(named.labels.begin(), named.labels.end());
  for (const std::string& label : found) {
    if (find_invalid_utf8(label) != std::string_view::npos) {
      fail(ErrorKind::data, "{}: expected class names in UTF-8, got '{}'. Rename it.", options.name,
           printable(label));
    }
  }
  ImageFolder folder{.root = root,
                     .classes = options.classes,
                     .files = std::move(named.files),
                     .skipped = std::move(named.skipped),
                     .unreadable = std::move(named.unreadable)};
  if (folder.classes.empty()) {
    folder.classes.assign(found.begin(), found.end());
    if (folder.classes.size() < 2) {
      fail(ErrorKind::data, "{}: expected at least two classes in {}, got only {}.", options.name,
           printable(root.string()), quoted_list(folder.classes));
    }
  }
  std::map<std::string_view, int64_t> numbers;
  for (const std::string& name : folder.classes) {
    numbers.emplace(name, static_cast<int64_t>(numbers.size()));
  }
  std::vector<std::string> unknown;
  for (const std::string& label : found) {
    if (!numbers.contains(label)) unknown.push_back(label);
  }
  if (!unknown.empty()) {
    fail(ErrorKind::data, "{}: the classes {} in {} are not among the expected {}.", options.name,
         quoted_list(unknown), printable(root.string()), quoted_list(folder.classes));
  }
  for (size_t i = 0; i < folder.files.size(); ++i) {
    folder.files[i].label = numbers.at(named.labels[i]);
  }
  return folder;
}

}  // namespace

std::vector<int64_t> ImageFolder::labels() const {
  std::vector<int64_t> labels;
  labels.reserve(files.size());
  for (const PictureFile& file : files) labels.push_back(file.label);
  return labels;
}

std::vector<int64_t> ImageFolder::counts() const {
  std::vector<int64_t> counts(classes.size());
  for (const PictureFile& file : files) ++counts[static_cast<size_t>(file.label)];
  return counts;
}

ImageFolder open_image_folder(const std::filesystem::path& root,
                              const ImageFolderOptions& options) {
  if (!options.label_pattern.empty() && !options.csv.empty()) {
    fail(ErrorKind::usage, "{}: labels come from label_pattern or from csv, not from both.",
         options.name);
  }
  check_root(root, options.name);
  if (!options.csv.empty()) return number_classes(root, from_csv(root, options), options);
  FileWalk walk = walk_files(root, options.name, options.on_unreadable);
  Named named = options.label_pattern.empty() ? from_folders(root, std::move(walk), options)
                                              : from_names(root, std::move(walk), options);
  return number_classes(root, std::move(named), options);
}

}  // namespace whisker
