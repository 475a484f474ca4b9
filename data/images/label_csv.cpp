#include "data/images/label_csv.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "data/class_names.h"
#include "data/codec/unsupported_formats.h"
#include "data/files/label_table.h"
#include "data/files/path_finder.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace whisker {
namespace {

/// Finds the files that rows name.
class ListedFiles {
 public:
  explicit ListedFiles(const std::filesystem::path& root) : root_(root), finder_(root) {}

  std::optional<WalkedFile> find(const std::string& written) {
    const std::string path = csv_text(written);
    for (const std::string& name : {written, path}) {
      if (auto file = find_file(root_, name)) return file;
    }
    std::string slashes = path;
    std::ranges::replace(slashes, '\\', '/');
    const std::optional<std::string> found = finder_.find(slashes);
    auto file = found ? find_file(root_, *found) : std::nullopt;
    if (!file) return file;
    if (*found == slashes) {
      ++backslashes_;
    } else {
      normalised_.add(written, *found);
    }
    return file;
  }

  void add_notes(const std::string& name, std::vector<std::string>& notes) const {
    if (backslashes_ > 0) {
      notes.push_back(fmt::format("{}: {}", name,
                                  counted(backslashes_, "path is found with / for its backslashes",
                                          "paths are found with / for their backslashes")));
    }
    const std::string note = normalised_.note("path", "paths");
    if (!note.empty()) notes.push_back(fmt::format("{}: {}", name, note));
  }

 private:
  const std::filesystem::path& root_;
  PathFinder finder_;
  int64_t backslashes_ = 0;
  NormalisedNames normalised_;
};

std::string whole(const std::filesystem::path& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

using LabelledPaths = std::map<std::string, std::pair<WalkedFile, std::string>>;

/// Counts the files below `root` that the CSV does not list as skipped, but for itself.
void skip_unlisted(const std::filesystem::path& root, const LabelledPaths& listed,
                   const ImageFolderOptions& options, NamedImages& named) {
  std::set<std::string> known = {whole(options.csv)};
  for (const auto& [path, rest] : listed) known.insert(whole(root / path));
  const auto skip = [&](SkippedFile file) {
    if (!known.contains(whole(root / file.path))) named.skipped.push_back(std::move(file));
  };
  FileWalk walk = walk_files(root, options.name, OnUnreadable::list, options.rules);
  const std::string reason =
      fmt::format("not listed in {}", printable(options.csv.filename().string()));
  for (WalkedFile& file : walk.files) skip({std::move(file.path), reason});
  for (auto* files : {&walk.skipped, &walk.unreadable}) {
    for (SkippedFile& file : *files) skip(std::move(file));
  }
}

}  // namespace

void add_file(NamedImages& named, WalkedFile file, std::string label) {
  named.links += file.link ? 1 : 0;
  named.labels.push_back(std::move(label));
  named.files.push_back({.path = std::move(file.path),
                         .bytes = file.bytes,
                         .modified_ns = file.modified_ns,
                         .written_ns = file.written_ns,
                         .deep = file.deep,
                         .alpha = file.alpha});
}

NamedImages read_label_csv(const std::filesystem::path& root, const ImageFolderOptions& options) {
  const LabelTable table = read_label_table(options.csv, options.rules);
  NamedImages named;
  named.notes = table.notes;
  ListedFiles listed_files(root);
  ListedOnce listed_once(table);
  LabelledPaths sorted;
  for (const CsvRow& row : table.rows) {
    const std::string& written = row.fields[table.path];
    const std::optional<WalkedFile> found = listed_files.find(written);
    if (!found && options.on_unreadable == OnUnreadable::fail) {
      fail(ErrorKind::data, "{}:{}: expected a file below {}, but there is none at '{}'.",
           table.name, row.line, printable(root.string()), printable(written));
    }
    const std::string& file = found ? found->path : written;
    listed_once.add(options.rules < 3 ? file : whole(root / file), row);
    if (found) {
      sorted.emplace(file, std::pair(*found, csv_text(row.fields[table.label])));
    } else {
      named.unreadable.push_back({file, "no such file"});
    }
  }
  listed_files.add_notes(table.name, named.notes);
  std::vector<WalkedFile> listed;
  for (const auto& [file, rest] : sorted) listed.push_back(rest.first);
  if (options.counts_unlisted) skip_unlisted(root, sorted, options, named);
  for (WalkedFile& file : take_images(root, listed, named.skipped, options.rules)) {
    std::string own = std::move(sorted[file.path].second);
    add_file(named, std::move(file), std::move(own));
  }
  return named;
}

}  // namespace whisker
