// Listing images and naming what is wrong with a folder.
#include "data/images/image_folder.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/file_ending.h"
#include "core/io/hash.h"
#include "core/io/text.h"
#include "core/io/utf8.h"
#include "data/codec/unsupported_formats.h"
#include "data/files/check_reading.h"
#include "data/files/class_folders.h"
#include "data/images/label_csv.h"
#include "data/images/label_pattern.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <utility>

namespace whisker {
namespace {

/// Throws a problem of the folder, or adds it to the caller's list.
void report_problem(const ImageFolderOptions& options, std::string problem) {
  if (options.problems == nullptr) throw Error(ErrorKind::data, problem);
  options.problems->push_back(std::move(problem));
}

void check_root(const std::filesystem::path& root, const std::string& name) {
  std::error_code ignored;
  const auto status = std::filesystem::status(root, ignored);
  const std::string shown = printable(root.string());
  if (!std::filesystem::exists(status)) {
    fail(ErrorKind::data, "{}: expected a folder, but {} does not exist{}.{}", name, shown,
         root.is_relative()
             ? fmt::format(" in {}", printable(std::filesystem::current_path(ignored).string()))
             : std::string(),
         name.starts_with("data.") ? fmt::format(" {}=DIR names another.", name) : std::string());
  }
  if (!std::filesystem::is_directory(status)) {
    constexpr std::string_view of_tables[] = {".csv", ".tsv", ".txt"};
    const bool table = std::ranges::count(of_tables, file_ending(root)) > 0;
    const bool trains = name == "data.train" || name == "--data";
    fail(ErrorKind::data, "{}: expected a folder{}, but {} is a file. {}", name,
         table ? " of images" : "", shown,
         !table ? "Unpack an archive first."
         : trains
             ? fmt::format("If it lists images and their labels, name their folder, and add "
                           "data.csv={}. Texts, rows and series need a configuration with "
                           "data.kind and a network for them.",
                           shown)
             : std::string("Name a folder with a folder per class; data.csv is for data.train."));
  }
}

// The note on folders within a class folder that has images of its own, too: one may have slipped
// there.
std::string nested_note(const std::vector<ImageFile>& files) {
  std::set<std::string> with_images;
  for (const ImageFile& file : files) {
    const size_t slash = file.path.find('/');
    if (file.path.find('/', slash + 1) == std::string::npos) {
      with_images.insert(file.path.substr(0, slash));
    }
  }
  int64_t nested = 0;
  std::string example;
  for (const ImageFile& file : files) {
    const size_t slash = file.path.find('/'), end = file.path.find('/', slash + 1);
    if (end == std::string::npos || !with_images.contains(file.path.substr(0, slash))) continue;
    if (nested++ == 0) example = file.path.substr(0, end);
  }
  if (nested == 0) return "";
  return fmt::format("{} in folders beside a class's own images, such as {}, {} of that class",
                     counted(nested, "image"), printable(example), nested == 1 ? "is" : "are");
}

// Where the labels of images may be that lie in no class folder: in names such as cat.0.jpg.
std::string labels_of_loose(std::span<const std::string> names) {
  for (const std::string_view pattern :
       {"{label}.#.*", "{label}_#.*", "{label}-#.*", "{label} (#).*", "{label}#.*"}) {
    const LabelPattern parsed(pattern);
    std::set<std::string> labels;
    const bool all = std::ranges::all_of(names, [&](const std::string& name) {
      const std::optional<std::string> label = parsed.match(name);
      if (label) labels.insert(*label);
      return label.has_value();
    });
    if (!all || labels.size() < 2 || 2 * labels.size() > names.size()) continue;
    const std::vector<std::string> some(labels.begin(), labels.end());
    return fmt::format(
        "If their names hold the class, set data.label_pattern (or --label-pattern) to '{}', which "
        "reads {}.",
        pattern, quoted_list(some));
  }
  return "If a table lists their labels, name it: data.csv=FILE. If their names hold the class, "
         "data.label_pattern (or --label-pattern) says where, as '{label}.*.jpg' of cat.0.jpg.";
}

NamedImages from_folders(const std::filesystem::path& root, FileWalk walk,
                         const ImageFolderOptions& options) {
  NamedImages named;
  check_reading(options.rules, named.notes, [&] {
    std::string note =
        refuse_splits(root, options.name, names_not_in(walk.folders, options.classes));
    if (!note.empty()) named.notes.push_back(std::move(note));
  });
  named.skipped = std::move(walk.skipped);
  named.unreadable = std::move(walk.unreadable);
  std::map<std::string, int64_t> counts;
  for (const std::string& folder : walk.folders) counts[folder] = 0;
  std::vector<std::string> loose;
  for (WalkedFile& file : take_images(root, walk.files, named.skipped, options.rules)) {
    const size_t slash = file.path.find('/');
    if (slash == std::string::npos) {
      loose.push_back(file.path);
      named.skipped.push_back({std::move(file.path), "not in a class folder"});
    } else {
      std::string label = file.path.substr(0, slash);
      ++counts[label];
      add_file(named, std::move(file), std::move(label));
    }
  }
  SplitsInClasses splits;
  for (const ImageFile& file : named.files) splits.add(file.path);
  check_reading(options.rules, named.notes, [&] { splits.refuse(root, options.name); });
  if (std::string note = nested_note(named.files); !note.empty()) {
    named.notes.push_back(std::move(note));
  }
  const std::string shown = printable(root.string());
  if (named.files.empty() && !loose.empty()) {
    fail(ErrorKind::data, "{}: expected one folder per class in {}, got {} outside. {}",
         options.name, shown, counted(std::ssize(loose), "image"),
         options.no_folders.empty() ? labels_of_loose(loose) : options.no_folders);
  }
  if (named.files.empty()) {
    const std::string unsupported = unsupported_formats(named.skipped);
    const bool texts =
        unsupported.empty() && std::ranges::any_of(named.skipped, [](const SkippedFile& file) {
          return file_ending(file.path) == ".txt";
        });
    fail(ErrorKind::data,
         "{}: expected images in class folders, as in {}/cat/1.jpg; found {} and {}{}, "
         "but no JPEG, PNG, BMP, WebP, PBM, PGM or PPM.{}",
         options.name, shown, counted(std::ssize(walk.folders), "folder"),
         counted(std::ssize(named.skipped), "other file"),
         unsupported.empty() ? std::string() : fmt::format(" ({})", unsupported),
         texts ? " Texts need a configuration with data.kind: text and a network for them." : "");
  }
  for (const SkippedFile& file : named.skipped) {  // a folder of heat maps is no class
    if (file.reason != heat_map_reason) continue;
    const auto folder = counts.find(file.path.substr(0, file.path.find('/')));
    if (folder != counts.end() && folder->second == 0) counts.erase(folder);
  }
  std::vector<std::string> empty_classes;
  for (const auto& [folder, count] : counts) {
    if (count == 0) empty_classes.push_back(folder);
  }
  if (!empty_classes.empty() && options.classes.empty()) {
    const std::string unsupported = unsupported_formats(named.skipped);
    report_problem(
        options,
        fmt::format(
            "{}: no images in the class folders {} of {}. Remove these folders or fill them.{}",
            options.name, quoted_list(empty_classes), shown,
            unsupported.empty() ? std::string()
                                : fmt::format(" {}; found {}.", supported_formats, unsupported)));
  }
  return named;
}

NamedImages from_names(const std::filesystem::path& root, FileWalk walk,
                       const ImageFolderOptions& options) {
  const LabelPattern pattern(options.label_pattern);
  NamedImages named;
  named.skipped = std::move(walk.skipped);
  named.unreadable = std::move(walk.unreadable);
  std::string unmatched, longer;
  std::set<std::string> short_labels, long_labels;
  for (WalkedFile& file : take_images(root, walk.files, named.skipped, options.rules)) {
    if (std::optional<std::string> label = pattern.match(file.path)) {
      const std::string longest = pattern.longest(file.path);
      short_labels.insert(*label);
      long_labels.insert(longest);
      if (longest != *label && longer.empty()) {
        longer = fmt::format("'{}' is read as '{}', not '{}'", printable(file.path),
                             printable(*label), printable(longest));
      }
      add_file(named, std::move(file), *std::move(label));
    } else {
      unmatched = file.path;
      named.skipped.push_back({std::move(file.path), "not of data.label_pattern"});
    }
  }
  if (named.files.empty()) {
    const std::string got =
        unmatched.empty() ? "no images" : fmt::format("'{}'", printable(unmatched));
    fail(ErrorKind::data, "{}: expected names that match data.label_pattern '{}' in {}, got {}.",
         options.name, options.label_pattern, printable(root.string()), got);
  }
  // Not where they are numbers of single files.
  if (long_labels != short_labels && 2 * long_labels.size() <= named.files.size()) {
    named.notes.push_back(fmt::format(
        "data.label_pattern '{}' reads {} classes, and may read {}: {}; '#' fits digits alone",
        options.label_pattern, short_labels.size(), long_labels.size(), longer));
  }
  return named;
}

/// The note that the folders within a folder of one class may be the classes. "" when it has none.
std::string deeper_classes(const ImageFolder& folder) {
  std::set<std::string> deeper;
  for (const ImageFile& file : folder.files) {
    const size_t begin = file.path.find('/') + 1;  // 0 without
    const size_t end = file.path.find('/', begin);
    if (begin > 0 && end != std::string::npos) deeper.insert(file.path.substr(begin, end - begin));
  }
  if (deeper.size() < 2 || folder.classes.empty()) return {};
  const std::vector<std::string> names(deeper.begin(), deeper.end());
  return fmt::format(" If its folders {} are the classes, name {}.", quoted_list(names),
                     printable((folder.root / folder.classes.front()).string()));
}

/// Turns class names into numbers, by the given table or by the sorted names found.
ImageFolder number_classes(const std::filesystem::path& root, NamedImages named,
                           const ImageFolderOptions& options) {
  const std::set<std::string> found(named.labels.begin(), named.labels.end());
  for (const std::string& label : found) {
    if (find_invalid_utf8(label) != std::string_view::npos) {
      report_problem(options, fmt::format("{}: expected class names in UTF-8, got '{}'. Rename it.",
                                          options.name, printable(label)));
    }
  }
  ImageFolder folder{.root = root,
                     .classes = options.classes,
                     .files = std::move(named.files),
                     .skipped = std::move(named.skipped),
                     .unreadable = std::move(named.unreadable),
                     .links = named.links,
                     .notes = std::move(named.notes)};
  if (folder.classes.empty()) {
    folder.classes.assign(found.begin(), found.end());
    if (folder.classes.size() < 2) {
      report_problem(options, fmt::format("{}: expected at least two classes in {}, got only {}.{}",
                                          options.name, printable(root.string()),
                                          quoted_list(folder.classes), deeper_classes(folder)));
    }
  }
  std::map<std::string_view, int64_t> numbers;
  std::vector<std::string> unknown;
  NormalisedNames normalised;
  for (const std::string& label : found) {
    if (const auto number = class_number(folder.classes, label)) {
      numbers.emplace(label, *number);
      normalised.add(label, folder.classes[static_cast<size_t>(*number)]);
    } else {
      unknown.push_back(label);
    }
  }
  if (!unknown.empty()) {
    fail(ErrorKind::data, "{}: the classes {} in {} are not among the expected {}.{}", options.name,
         quoted_list(unknown), printable(root.string()), quoted_list(folder.classes),
         options.other_classes);
  }
  for (size_t i = 0; i < folder.files.size(); ++i) {
    folder.files[i].label = numbers.at(named.labels[i]);
  }
  if (std::string note = normalised.note("name of a class", "names of classes"); !note.empty()) {
    folder.notes.push_back(std::move(note));
  }
  return folder;
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

std::vector<int64_t> ImageFolder::labels() const {
  std::vector<int64_t> labels;
  labels.reserve(files.size());
  for (const ImageFile& file : files) labels.push_back(file.label);
  return labels;
}

std::vector<int64_t> ImageFolder::counts() const {
  std::vector<int64_t> counts(classes.size());
  for (const ImageFile& file : files) ++counts[static_cast<size_t>(file.label)];
  return counts;
}

ImageFolder open_image_folder(const std::filesystem::path& root,
                              const ImageFolderOptions& options) {
  if (!options.label_pattern.empty() && !options.csv.empty()) {
    fail(ErrorKind::usage, "{}: labels come from label_pattern or from csv, not from both.",
         options.name);
  }
  check_root(root, options.name);
  if (!options.csv.empty()) return number_classes(root, read_label_csv(root, options), options);
  FileWalk walk = walk_files(root, options.name, options.on_unreadable, options.rules);
  NamedImages named = options.label_pattern.empty() ? from_folders(root, std::move(walk), options)
                                                    : from_names(root, std::move(walk), options);
  return number_classes(root, std::move(named), options);
}

bool holds_images(const std::filesystem::path& folder) {
  constexpr size_t at_once = 32;  // the first files tell, mostly
  const std::vector<WalkedFile> files = walk_files(folder, "data", OnUnreadable::list).files;
  std::vector<SkippedFile> ignored;
  for (size_t i = 0; i < files.size(); i += at_once) {
    const auto some = std::span(files).subspan(i, std::min(at_once, files.size() - i));
    if (!take_images(folder, some, ignored).empty()) return true;
  }
  return false;
}

std::string fingerprint(const ImageFolder& folder) {
  Hash64 hash;
  for (const ImageFile& file : folder.files) {
    update_with_name(hash, file.path);
    update_with_number(hash, file.bytes);
    update_with_name(hash, folder.classes[static_cast<size_t>(file.label)]);
  }
  return hash.hex();
}

}  // namespace whisker
