// Rows or lines first, then the class table and a label for each.
#include "data/labelled_text.h"

#include "core/error.h"
#include "core/io/file.h"
#include "core/io/text.h"
#include "core/io/utf8.h"
#include "data/file_walk.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace whisker {
namespace {

namespace fs = std::filesystem;

constexpr size_t most_bytes = size_t{1} << 31;

struct Found {
  std::string label, text, place;
};

// "" for a text that can be used.
std::string fault_of(std::string_view text) {
  if (text.find_first_not_of(" \t") == std::string_view::npos) return "the text is empty";
  const size_t at = find_invalid_utf8(text);
  return at == std::string_view::npos ? "" : fmt::format("byte {} is no UTF-8", at + 1);
}

class Reader {
 public:
  void add_rows(const fs::path& path, const LabelledTextOptions& options) {
    RowFile file = read_rows(path);
    const CsvRow header = file.rows.front();
    const size_t label = find_column(header, options.label_column, file.name);
    const size_t text = find_column(header, options.text_column, file.name);
    const bool named =
        !is_column_number(options.label_column) || !is_column_number(options.text_column);
    if (named) file.rows.erase(file.rows.begin());
    for (CsvRow& row : file.rows) {
      add({std::move(row.fields[label]), std::move(row.fields[text]), file.place(row)});
    }
    bad_.insert(bad_.end(), file.bad.begin(), file.bad.end());
  }

  void add_class_file(const fs::path& path) {
    const std::string all = read_file(path, most_bytes, ErrorKind::data);
    std::string_view text = all;
    if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
    for (int line = 1; !text.empty(); ++line) {
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view one = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (one.ends_with('\r')) one.remove_suffix(1);
      if (one.empty()) continue;
      add({path.stem().string(), std::string(one),
           fmt::format("{}:{}", printable(path.string()), line)});
    }
  }

  LabelledText finish(const LabelledTextOptions& options) {
    LabelledText all{.classes = options.classes, .examples = {}, .bad = std::move(bad_)};
    if (all.classes.empty()) {
      std::set<std::string> names;
      for (const Found& one : found_) names.insert(one.label);
      all.classes.assign(names.begin(), names.end());
    }
    std::map<std::string_view, int64_t> numbers;
    for (const std::string& name : all.classes) {
      numbers.emplace(name, static_cast<int64_t>(numbers.size()));
    }
    const auto total = std::ssize(found_) + std::ssize(all.bad);
    for (Found& one : found_) {
      const auto known = numbers.find(one.label);
      if (known == numbers.end()) {
        all.bad.push_back({.place = one.place,
                           .reason = fmt::format("{} is no class of the model, which has {}",
                                                 excerpt(one.label), quoted_list(all.classes))});
      } else {
        all.examples.push_back({std::move(one.text), known->second, std::move(one.place)});
      }
    }
    check_bad_rows(all.bad, total, options.max_bad);
    return all;
  }

 private:
  void add(Found one) {
    std::string fault = one.label.empty() ? "the label is empty" : fault_of(one.text);
    if (fault.empty() && find_invalid_utf8(one.label) != std::string_view::npos) {
      fault = "the label is no UTF-8";
    }
    if (fault.empty()) {
      found_.push_back(std::move(one));
    } else {
      bad_.push_back({.place = std::move(one.place), .reason = std::move(fault)});
    }
  }

  std::vector<Found> found_;
  std::vector<BadRow> bad_;
};

}  // namespace

std::vector<int64_t> LabelledText::labels() const {
  std::vector<int64_t> all;
  for (const Example& one : examples) all.push_back(one.label);
  return all;
}

LabelledText read_labelled_text(const fs::path& path, const LabelledTextOptions& options) {
  Reader reader;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    for (const WalkedFile& file : walk_files(path, options.name).files) {
      reader.add_class_file(path / file.path);
    }
  } else if (fs::exists(path, error)) {
    reader.add_rows(path, options);
  } else {
    fail(ErrorKind::data,
         "{}: no file or folder {}. It is a table of labels and texts, or a folder of files named "
         "after their class.",
         options.name, excerpt(path.string()));
  }
  LabelledText all = reader.finish(options);
  if (all.examples.empty()) {
    fail(ErrorKind::data, "{}: {} holds no labelled text", options.name, excerpt(path.string()));
  }
  if (options.classes.empty() && all.classes.size() < 2) {
    fail(
        ErrorKind::data,
        "{}: expected texts of two classes at least in {}, got only '{}'. Check data.label_column.",
        options.name, excerpt(path.string()), all.classes.front());
  }
  return all;
}

}  // namespace whisker
