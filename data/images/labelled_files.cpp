// Folders by open_image_folder, files by name.
#include "data/images/labelled_files.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "data/codec/unsupported_formats.h"
#include "data/files/path_finder.h"
#include "data/images/label_pattern.h"

#include <algorithm>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

namespace whisker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view naming_classes =
    " If the folders name the model's classes otherwise (by numbers such as n01440764): --classes "
    "FILE with these names, one per line, in the order of the model's outputs.";

class Labeller {
 public:
  explicit Labeller(const LabelOptions& options) : options_(options) {
    all_.classes = options.classes;
    if (!options.label_pattern.empty()) pattern_.emplace(options.label_pattern);
  }

  void add(const std::string& name) {
    std::error_code error;
    const fs::file_status status = fs::status(name, error);
    if (fs::is_directory(status)) {
      if (is_class_folder(name)) {
        add_class_folder(name);
      } else {
        add_folder(name);
      }
    } else if (fs::exists(status)) {
      add_file(name, fs::file_size(name, error));
    } else if (const auto found = name.empty() ? std::nullopt : finder_.find(name);
               found && *found != name) {
      other_paths_.add(name, *found);
      add(*found);
    } else {
      all_.unreadable.push_back({name, error ? error.message() : "no such file"});
    }
  }

  /// Class folders in `root`, or the files of the CSV relative to it.
  void add_folder(const fs::path& root, bool counts_unlisted = true) {
    ImageFolder found = open_image_folder(root, {.label_pattern = options_.label_pattern,
                                                 .csv = options_.csv,
                                                 .classes = options_.classes,
                                                 .other_classes = std::string(naming_classes),
                                                 .name = options_.name,
                                                 .on_unreadable = OnUnreadable::list,
                                                 .counts_unlisted = counts_unlisted});
    for (ImageFile& file : found.files) {
      file.path = (root / file.path).string();
      take(std::move(file));
    }
    all_.links += found.links;
    all_.notes.insert(all_.notes.end(), found.notes.begin(), found.notes.end());
    add_skipped(root, std::move(found.skipped), std::move(found.unreadable));
  }

  ImageFolder finish() {
    for (std::string note : {other_paths_.note("path", "paths"),
                             normalised_.note("name of a class", "names of classes")}) {
      if (!note.empty()) all_.notes.push_back(std::move(note));
    }
    if (repeated_ > 0) {
      all_.notes.push_back(fmt::format("{} given more than once; each counts once",
                                       counted(repeated_, "image is", "images are")));
    }
    if (unlabelled_.empty()) return std::move(all_);
    fail(
        ErrorKind::data,
        "{}: expected one of the model's classes ({}) as the label of {}. Put files into folders "
        "named after their class, or give labels by --label-pattern '{{label}}.*' or --csv FILE.{}",
        options_.name, quoted_list(all_.classes), quoted_list(unlabelled_), naming_classes);
  }

 private:
  std::optional<int64_t> number_of(std::string_view name) const {
    return class_number(all_.classes, name);
  }

  static std::string own_name(const fs::path& folder) {
    const fs::path whole = fs::absolute(folder).lexically_normal();
    return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  }

  bool is_class_folder(const fs::path& folder) const {
    if (pattern_ || !number_of(own_name(folder))) return false;
    return std::ranges::none_of(all_.classes, [&](const std::string& name) {
      std::error_code error;
      return fs::is_directory(folder / name, error);
    });
  }

  void add_class_folder(const fs::path& root) {
    const int64_t label = *number_of(own_name(root));
    normalised_.add(own_name(root), all_.classes[static_cast<size_t>(label)]);
    FileWalk walk = walk_files(root, options_.name, OnUnreadable::list);
    for (const WalkedFile& file : take_images(root, walk.files, walk.skipped)) {
      take({.path = (root / file.path).string(),
            .label = label,
            .bytes = file.bytes,
            .deep = file.deep,
            .alpha = file.alpha});
      all_.links += file.link ? 1 : 0;
    }
    add_skipped(root, std::move(walk.skipped), std::move(walk.unreadable));
  }

  void add_file(const std::string& name, uint64_t bytes) {
    const std::optional<std::string> told =
        pattern_ ? pattern_->match(name) : own_name(fs::absolute(name).parent_path());
    const std::optional<int64_t> label = told ? number_of(*told) : std::nullopt;
    if (label) {
      normalised_.add(*told, all_.classes[static_cast<size_t>(*label)]);
      WalkedFile file{.path = name};
      std::error_code error;
      if (fs::is_regular_file(name, error)) set_sample_flags(name, file);  // a pipe is read once
      take({.path = name, .label = *label, .bytes = bytes, .deep = file.deep, .alpha = file.alpha});
    } else {
      unlabelled_.push_back(name);
    }
  }

  void take(ImageFile file) {
    const auto [first, is_new] =
        labels_.emplace(fs::path(file.path).lexically_normal().string(), file.label);
    if (is_new) {
      all_.files.push_back(std::move(file));
    } else if (first->second == file.label) {
      ++repeated_;
    } else {
      fail(ErrorKind::data, "{}: {} is given twice, of the classes {} and {}. Give it once.",
           options_.name, excerpt(file.path),
           excerpt(all_.classes[static_cast<size_t>(first->second)]),
           excerpt(all_.classes[static_cast<size_t>(file.label)]));
    }
  }

  void add_skipped(const fs::path& root, std::vector<SkippedFile> skipped,
                   std::vector<SkippedFile> unreadable) {
    for (SkippedFile& file : skipped) {
      file.path = (root / file.path).string();
      all_.skipped.push_back(std::move(file));
    }
    for (SkippedFile& file : unreadable) {
      all_.unreadable.push_back({(root / file.path).string(), std::move(file.reason)});
    }
  }

  const LabelOptions& options_;
  std::optional<LabelPattern> pattern_;
  ImageFolder all_;
  std::map<std::string, int64_t> labels_;  // by path
  int64_t repeated_ = 0;
  std::vector<std::string> unlabelled_;
  NormalisedNames normalised_, other_paths_;
  PathFinder finder_{"."};
};

}  // namespace

ImageFolder label_files(std::span<const std::string> names, const LabelOptions& options) {
  Labeller labeller(options);
  if (options.csv.empty()) {
    for (const std::string& name : names) labeller.add(name);
    return labeller.finish();
  }
  if (names.size() > 1) {
    fail(ErrorKind::usage,
         "{}: --csv: expected at most one folder, which its paths are relative to, got {} names.",
         options.name, names.size());
  }
  const fs::path own = options.csv.has_parent_path() ? options.csv.parent_path() : fs::path(".");
  // The CSV's own folder may hold anything.
  labeller.add_folder(names.empty() ? own : fs::path(names.front()), !names.empty());
  return labeller.finish();
}

}  // namespace whisker
