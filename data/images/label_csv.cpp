#include "data/images/label_csv.h"

#include "core/error.h"
#include "core/io/text.h"
#include "data/class_names.h"
#include "data/codec/unsupported_formats.h"
#include "data/files/csv.h"
#include "data/files/path_finder.h"
#include "data/files/text_file.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace whisker {
namespace {

/// The position of a column in the header; notes a name in another case. Throws data without it,
/// and where several have the name.
size_t column_of(const CsvRow& header, std::string_view wanted, const std::string& name,
                 const ImageFolderOptions& options, std::vector<std::string>& notes) {
  if (options.rules == 1) {
    const auto first = std::ranges::find(header.fields, wanted);
    if (first != header.fields.end()) return static_cast<size_t>(first - header.fields.begin());
  }
  const std::optional<size_t> found = named_column(header, wanted, name);
  if (!found) {
    fail(ErrorKind::data, "{}:{}: expected a header with the columns path and label, got {}.", name,
         header.line, quoted_list(header.fields));
  }
  if (header.fields[*found] != wanted) {
    notes.push_back(fmt::format("{}: column {} ({}) is read as {}, in another case", name,
                                *found + 1, excerpt(header.fields[*found]), wanted));
  }
  return *found;
}

/// " as 'a'" of a cell that is 'a' in the row before; "" where both rows have the same.
std::string unless_same(std::string_view as, const CsvRow& before, const CsvRow& row,
                        size_t column) {
  const std::string& cell = before.fields[column];
  return cell == row.fields[column] ? std::string() : fmt::format("{} {}", as, excerpt(cell));
}

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
      notes.push_back(
          fmt::format("{}: {} paths are found with / for their backslashes", name, backslashes_));
    }
    const std::string note = normalised_.note("paths");
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
                         .deep_png = file.deep_png});
}

NamedImages read_label_csv(const std::filesystem::path& root, const ImageFolderOptions& options) {
  const std::string name = printable(options.csv.string());
  const std::string text = read_text(options.csv, LineEnds::lf_for_cr);
  const char separator = csv_separator(text);
  const std::vector<CsvRow> rows = parse_csv(text, name, separator);
  if (rows.size() < 2) fail(ErrorKind::data, "{}: expected a header and rows, got none.", name);
  NamedImages named;
  const size_t path = column_of(rows.front(), "path", name, options, named.notes);
  const size_t label = column_of(rows.front(), "label", name, options, named.notes);
  if (std::ranges::find(rows.front().fields, "split") != rows.front().fields.end()) {
    named.notes.push_back(fmt::format("{}: the column split is not used: all rows are read", name));
  }
  if (separator != ',') {
    named.notes.push_back(fmt::format("{}: fields end at {}, as the first line has no comma", name,
                                      separator == ';' ? "semicolons" : "tabs"));
  }
  ListedFiles listed_files(root);
  std::map<std::string, const CsvRow*> listed_in;  // by the path, normalised
  LabelledPaths sorted;
  for (size_t i = 1; i < rows.size(); ++i) {
    const CsvRow& row = rows[i];
    const std::string& written = row.fields[path];
    check_listed_path(row, written, name);
    const std::optional<WalkedFile> found = listed_files.find(written);
    if (!found && options.on_unreadable == OnUnreadable::fail) {
      fail(ErrorKind::data, "{}:{}: expected a file below {}, but there is none at '{}'.", name,
           row.line, printable(root.string()), printable(written));
    }
    if (row.fields[label].empty()) {
      fail(ErrorKind::data, "{}:{}: '{}' has no label.", name, row.line, printable(written));
    }
    const std::string& file = found ? found->path : written;
    const auto [first, is_new] =
        listed_in.emplace(options.rules == 1 ? file : whole(root / file), &row);
    if (!is_new) {
      const CsvRow& before = *first->second;
      fail(ErrorKind::data, "{}:{}: {} is listed in line {} already{}{}. Keep one of these rows.",
           name, row.line, excerpt(written), before.line, unless_same(" as", before, row, path),
           unless_same(", with the label", before, row, label));
    }
    if (found) {
      sorted.emplace(file, std::pair(*found, csv_text(row.fields[label])));
    } else {
      named.unreadable.push_back({file, "no such file"});
    }
  }
  listed_files.add_notes(name, named.notes);
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
