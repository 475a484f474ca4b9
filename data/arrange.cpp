// Plan first (which picture becomes which file), then link, copy, move or unpack.
#include "data/arrange.h"

#include "core/error.h"
#include "core/io/file.h"
#include "core/io/utf8.h"
#include "data/decode.h"
#include "data/image_folder.h"
#include "data/label_pattern.h"
#include "data/new_file.h"
#include "data/zip_archive.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

namespace whisker {
namespace {

/// A picture of the source, under the name it has there, and its label.
struct Item {
  std::string path;
  std::string label;
  uint64_t bytes = 0;
  uint64_t entry = 0;  // position in the archive's list
};

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool is_hidden(std::string_view path) {
  return path.starts_with('.') || path.find("/.") != std::string_view::npos ||
         path.starts_with("__MACOSX");
}

/// A label becomes a folder's name: one visible name in UTF-8, nothing that leads elsewhere.
bool good_label(std::string_view label) {
  return !label.starts_with('.') && label.find_first_of("/\\") == std::string_view::npos &&
         label.size() <= 255 && find_invalid_utf8(label) == std::string_view::npos;
}

class Plan {
 public:
  explicit Plan(const ArrangeOptions& options)
      : options_(options), pattern_(options.label_pattern) {}

  void add(std::string path, uint64_t bytes, uint64_t entry, bool picture) {
    if (path.starts_with("../") || path.find("/../") != std::string::npos) {
      skipped.push_back({std::move(path), "leads out of the archive"});
      return;
    }
    if (is_hidden(path)) return;
    const std::optional<std::string> label = picture ? pattern_.match(path) : std::nullopt;
    if (!picture) {
      skipped.push_back({std::move(path), "not a JPEG, PNG or BMP picture"});
    } else if (!label) {
      skipped.push_back({std::move(path), "name does not match the pattern"});
    } else if (!good_label(*label)) {
      skipped.push_back({std::move(path), "the label cannot be a folder's name"});
    } else {
      items.push_back({std::move(path), *label, bytes, entry});
    }
  }

  /// Numbers the classes and splits them; throws data when there is nothing to arrange.
  SplitFolder split() const {
    std::set<std::string> labels;
    for (const Item& item : items) labels.insert(item.label);
    const std::string source = printable(options_.source.string());
    if (items.empty()) {
      const std::string example =
          skipped.empty() ? std::string("it is empty")
                          : fmt::format("for example '{}': {}", printable(skipped.front().path),
                                        skipped.front().reason);
      fail(
          ErrorKind::data,
          "data arrange: no picture in {} has a name that matches '{}' ({}). An archive inside the "
          "archive must be unpacked first.",
          source, options_.label_pattern, example);
    }
    if (labels.size() < 2 || (labels.size() == items.size() && items.size() > 2)) {
      fail(ErrorKind::data,
           "data arrange: expected several classes with several pictures each, but '{}' makes {} "
           "class{} of the {} pictures in {}, the first '{}' from '{}'. Give another pattern.",
           options_.label_pattern, labels.size(), labels.size() == 1 ? "" : "es", items.size(),
           source, printable(*labels.begin()), printable(items.front().path));
    }
    ImageFolder all{.root = options_.source, .classes = {}, .files = {}, .skipped = {}};
    all.classes.assign(labels.begin(), labels.end());
    for (size_t i = 0; i < items.size(); ++i) {
      const auto label = std::lower_bound(all.classes.begin(), all.classes.end(), items[i].label);
      all.files.push_back({.path = std::to_string(i),
                           .label = label - all.classes.begin(),
                           .bytes = items[i].bytes});
    }
    if (options_.val_split > 0) return split_stratified(all, options_.val_split, options_.seed);
    return {.train = std::move(all), .val = {}};
  }

  const Item& item(const PictureFile& file) const {
    return items[static_cast<size_t>(std::stoull(file.path))];
  }

  std::vector<Item> items;
  std::vector<SkippedFile> skipped;

 private:
  const ArrangeOptions& options_;
  LabelPattern pattern_;
};

/// "0.jpg", and for those that come later "0-2.jpg", "0-3.jpg" ...
std::string unused_name(std::set<std::string>& used, std::string name) {
  const std::string original = name;
  for (int number = 2; !used.insert(name).second; ++number) {
    const size_t dot = std::min(original.rfind('.'), original.size());
    name = fmt::format("{}-{}{}", original.substr(0, dot), number, original.substr(dot));
  }
  return name;
}

/// Whether another file system, or one without hard links, makes a copy necessary.
bool must_copy(const std::error_code& error) {
  return error == std::errc::cross_device_link || error == std::errc::operation_not_permitted ||
         error == std::errc::operation_not_supported || error == std::errc::too_many_links;
}

void copy_new(const std::filesystem::path& from, const std::filesystem::path& to) {
  const std::string content = read_file(from, max_picture_bytes, ErrorKind::data);
  write_new_file(to, std::as_bytes(std::span(content)));
}

/// Returns whether the bytes were copied.
bool place(ArrangeMode mode, const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  if (mode == ArrangeMode::copy) {
    copy_new(from, to);
    return true;
  }
  if (mode == ArrangeMode::link) {
    // A link in the source is followed: what is wanted is the picture.
    std::filesystem::create_hard_link(std::filesystem::canonical(from), to, error);
  } else {
    std::filesystem::rename(from, to, error);
  }
  if (!error) return false;
  if (!must_copy(error)) fail_disk(mode == ArrangeMode::link ? "link" : "move", to, error.value());
  copy_new(from, to);
  if (mode == ArrangeMode::move && !std::filesystem::remove(from, error)) {
    fail_disk("remove", from, error.value());
  }
  return true;
}

void check(const ArrangeOptions& options) {
  std::error_code error;
  if (!std::filesystem::exists(options.source, error)) {
    fail(ErrorKind::data, "data arrange: {} does not exist.", printable(options.source.string()));
  }
  if (!(options.val_split >= 0 && options.val_split < 1)) {
    fail(ErrorKind::usage, "data arrange: expected a val split from 0 to below 1, got {}.",
         options.val_split);
  }
  const auto source = std::filesystem::canonical(options.source);
  const auto target = std::filesystem::weakly_canonical(options.target);
  const auto parts = std::mismatch(source.begin(), source.end(), target.begin(), target.end());
  if (parts.first == source.end()) {
    fail(ErrorKind::usage, "data arrange: the target {} lies inside the source. Name one outside.",
         printable(options.target.string()));
  }
}

/// Plans for every file of the source. Returns the archive, where it is one, else null.
std::unique_ptr<ZipArchive> list_source(const ArrangeOptions& options, Plan& plan) {
  if (std::filesystem::is_directory(options.source)) {
    FileWalk walk = walk_files(options.source, "data arrange");
    plan.skipped = std::move(walk.skipped);
    for (WalkedFile& file : walk.files) {
      const bool picture = is_picture(options.source, file.path);
      plan.add(std::move(file.path), file.bytes, 0, picture);
    }
    return nullptr;
  }
  auto archive = std::make_unique<ZipArchive>(
      options.source, ZipLimits{.max_files = options.max_files,
                                .max_file_bytes = options.max_file_bytes,
                                .max_total_bytes = options.max_total_bytes});
  for (size_t i = 0; i < archive->entries().size(); ++i) {
    const ZipEntry& entry = archive->entries()[i];
    std::string path = entry.name;
    std::replace(path.begin(), path.end(), '\\', '/');  // some writers use the wrong slash
    plan.add(std::move(path), entry.bytes, i, has_picture_name(entry.name));
  }
  return archive;
}

}  // namespace

ArrangeResult arrange_pictures(const ArrangeOptions& options) {
  check(options);
  Plan plan(options);
  const std::unique_ptr<ZipArchive> archive = list_source(options, plan);
  const SplitFolder split = plan.split();

  ArrangeResult result;
  const bool with_val = options.val_split > 0;
  result.train = with_val ? options.target / "train" : options.target;
  if (with_val) result.val = options.target / "val";
  result.classes = split.train.classes;
  result.train_counts = split.train.counts();
  if (with_val) result.val_counts = split.val.counts();
  result.skipped = plan.skipped;
  make_empty_folder(options.target, "data arrange");
  for (const auto& [part, files] :
       {std::pair(&result.train, &split.train.files), std::pair(&result.val, &split.val.files)}) {
    std::map<std::string, std::set<std::string>> used;  // names by class
    for (const PictureFile& file : *files) {
      const Item& item = plan.item(file);
      const std::filesystem::path folder = *part / item.label;
      if (!used.contains(item.label)) make_folders(folder);
      const std::string name = unused_name(used[item.label], std::string(base_name(item.path)));
      if (archive) {
        const std::string content = archive->read(archive->entries()[item.entry]);
        write_new_file(folder / name, std::as_bytes(std::span(content)));
        ++result.copied_files;
      } else {
        result.copied_files += place(options.mode, options.source / item.path, folder / name);
      }
    }
  }
  return result;
}

}  // namespace whisker
