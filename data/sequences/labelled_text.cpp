// Rows, lines or files first, then the class table and a label for each.
#include "data/sequences/labelled_text.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/file.h"
#include "core/io/lower_ascii.h"
#include "core/io/text.h"
#include "core/io/unicode.h"
#include "core/io/utf8.h"
#include "core/work_progress.h"
#include "data/class_names.h"
#include "data/files/check_reading.h"
#include "data/files/class_folders.h"
#include "data/files/file_walk.h"
#include "data/files/split_names.h"
#include "data/files/text_file.h"
#include "data/sequences/table_checks.h"
#include "data/sequences/table_header.h"
#include "data/sequences/text_columns.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace whisker {
namespace {

namespace fs = std::filesystem;

constexpr size_t most_text_bytes = size_t{1} << 31;

struct Found {
  std::string label, text, place;
};

// "" for a text that can be used.
std::string fault_of(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return "the text is empty";
  const size_t at = find_invalid_utf8(text);
  return at == std::string_view::npos ? "" : fmt::format("byte {} is not UTF-8", at + 1);
}

bool is_text(const WalkedFile& file) {
  return lower_ascii(file.path).ends_with(".txt");
}

class Reader {
 public:
  void add_rows(const fs::path& path, const LabelledTextOptions& options) {
    RowFile file = read_rows(path, options.rules);
    TextColumns columns{.label = find_column(file, options.label_column),
                        .text = find_column(file, options.text_column),
                        .label_named = !is_column_number(options.label_column),
                        .text_named = !is_column_number(options.text_column)};
    const bool trained = !options.classes.empty();
    columns.label_chosen = columns.label_named || options.label_chosen || trained;
    columns.text_chosen = columns.text_named || options.text_chosen || trained;
    drop_text_header(file, options.header, columns, options.classes);
    check_reading(options.rules, file.notes, [&] {
      if (columns.label != columns.text) return;
      fail(ErrorKind::usage,
           "{}: column {} is read as the label and as the text: name another one by "
           "data.label_column or data.text.text_column (of evaluate: --label-column, "
           "--text-column).",
           file.name, columns.label + 1);
    });
    if (columns.label != 0) refuse_numbers_as_names(file, std::array{options.label_column});
    if (columns.text != 1) refuse_numbers_as_names(file, std::array{options.text_column});
    if (!columns.label_chosen) refuse_other_separator(file, columns.label);
    check_reading(options.rules, file.notes, [&] { refuse_likely_columns(file, columns); });
    notes_ = std::move(file.notes);
    std::ranges::move(unread_columns(file, columns), std::back_inserter(notes_));
    for (CsvRow& row : file.rows) {
      add({std::move(row.fields[columns.label]), std::move(row.fields[columns.text]),
           file.place(row)});
    }
    bad_.insert(bad_.end(), file.bad.begin(), file.bad.end());
  }

  // Class folders with a file per example, or files named after their class.
  void add_folder(const fs::path& root, const FileWalk& walk, const LabelledTextOptions& options) {
    skipped_ = walk.skipped;
    std::vector<WalkedFile> texts;
    for (const WalkedFile& file : walk.files) {
      if (options.rules == 1 || is_text(file)) {
        texts.push_back(file);
      } else {
        skipped_.push_back({file.path, "not a .txt file"});
      }
    }
    const bool class_folders = std::ranges::any_of(
        texts, [](const WalkedFile& file) { return file.path.find('/') != std::string::npos; });
    if (!class_folders) {
      check_reading(options.rules, notes_, [&] { refuse_split_files(root, texts, options); });
      for (const WalkedFile& file : texts) {
        add_class_file(root / file.path);
        named_.insert(fs::path(file.path).stem().string());
        count(file);
      }
      return;
    }
    check_reading(options.rules, notes_, [&] {
      std::string note =
          refuse_splits(root, options.name, names_not_in(walk.folders, options.classes), true);
      if (!note.empty()) notes_.push_back(std::move(note));
      SplitsInClasses splits;
      for (const WalkedFile& file : texts) splits.add(file.path);
      splits.refuse(root, options.name, true);
    });
    std::set<std::string> empty(walk.folders.begin(), walk.folders.end());
    for (const WalkedFile& file : texts) {
      const size_t slash = file.path.find('/');
      if (slash == std::string::npos) {
        skipped_.push_back({file.path, "not in a class folder"});
        continue;
      }
      const std::string label = file.path.substr(0, slash);
      empty.erase(label);
      named_.insert(label);
      count(file);
      const fs::path path = root / file.path;
      std::string text = read_file(path, most_text_bytes, ErrorKind::data);
      const std::string fault = decode_text(text, LineEnds::kept);
      add({label, std::move(text), printable(path.string())},
          fault.empty() ? "" : "the file " + fault);
    }
    if (empty.empty() || !options.classes.empty()) return;
    fail(ErrorKind::data,
         "{}: no texts in the class folders {} of {}. Remove these folders or fill them.",
         options.name, quoted_list(std::vector<std::string>(empty.begin(), empty.end())),
         printable(root.string()));
  }

  void add_class_file(const fs::path& path) {
    std::string all = read_file(path, most_text_bytes, ErrorKind::data);
    if (const std::string fault = decode_text(all, LineEnds::lf_for_cr); !fault.empty()) {
      bad_.push_back({.place = printable(path.string()), .reason = "the file " + fault});
      return;
    }
    std::string_view text = all;
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
    LabelledText all{.classes = options.classes,
                     .examples = {},
                     .bad = std::move(bad_),
                     .skipped = std::move(skipped_),
                     .files = files_,
                     .links = links_,
                     .notes = std::move(notes_)};
    if (all.classes.empty()) {
      std::set<std::string> names;
      for (const Found& one : found_) names.insert(one.label);
      all.classes.assign(names.begin(), names.end());
    }
    std::map<std::string, std::optional<int64_t>> numbers;  // of the labels found
    NormalisedNames normalised;
    const auto total = std::ssize(found_) + std::ssize(all.bad);
    for (Found& one : found_) {
      const auto [known, is_new] = numbers.try_emplace(one.label);
      if (is_new) known->second = class_number(all.classes, one.label);
      if (!known->second) {
        all.bad.push_back({.place = one.place,
                           .reason = fmt::format("{} is not a class of the model, which has {}",
                                                 excerpt(one.label), quoted_list(all.classes))});
      } else {
        normalised.add(one.label, all.classes[static_cast<size_t>(*known->second)]);
        all.examples.push_back({std::move(one.text), *known->second, std::move(one.place)});
      }
    }
    if (std::string note = normalised.note("label", "labels"); !note.empty()) {
      all.notes.push_back(std::move(note));
    }
    if (options.classes.empty()) {
      for (std::string& pair : similar_classes(all.classes)) all.notes.push_back(std::move(pair));
    }
    check_bad_rows(all.bad, total, options.max_bad);
    check_reading(options.rules, all.notes, [&] {
      if (options.classes.empty()) refuse_lost_classes(all.classes, options.name);
    });
    return all;
  }

 private:
  void refuse_lost_classes(const std::vector<std::string>& classes, const std::string& name) const {
    std::vector<std::string> lost;
    std::ranges::set_difference(named_, classes, std::back_inserter(lost));
    if (lost.empty()) return;
    fail(ErrorKind::data,
         "{}: no text that can be used of {}, whose files or folders are there. Fill or mend them, "
         "or remove them.",
         name, quoted_list(lost));
  }

  void count(const WalkedFile& file) {
    ++files_;
    links_ += file.link ? 1 : 0;
  }

  // French.txt and German.txt are classes; train.txt and test.txt are more likely splits.
  static void refuse_split_files(const fs::path& root, const std::vector<WalkedFile>& texts,
                                 const LabelledTextOptions& options) {
    std::vector<std::string> stems;
    for (const WalkedFile& file : texts) stems.push_back(fs::path(file.path).stem().string());
    const std::vector<std::string> unknown = names_not_in(stems, options.classes);
    const std::vector<std::string> parts = likely_parts(unknown).names;
    for (size_t i = 0; i < stems.size(); ++i) {
      const bool is_split = split_of_name(stems[i]) != Split::none;
      if (std::ranges::count(is_split ? unknown : parts, stems[i]) == 0) continue;
      fail(ErrorKind::data,
           "{}: {} in {} has the name of {}. Name the file if it is a table ({}); rename it if it "
           "is a class with a text per line.",
           options.name, excerpt(texts[i].path), excerpt(root.string()),
           is_split ? "a split" : fmt::format("a part of one data set ({})", quoted_list(parts)),
           printable((root / texts[i].path).string()));
    }
  }

  void add(Found one, std::string fault = "") {
    count_progress();
    if (fault.empty()) fault = one.label.empty() ? "the label is empty" : fault_of(one.text);
    if (fault.empty() && find_invalid_utf8(one.label) != std::string_view::npos) {
      fault = "the label is not UTF-8";
    }
    if (fault.empty()) {
      found_.push_back(std::move(one));
    } else {
      bad_.push_back({.place = std::move(one.place), .reason = std::move(fault)});
    }
  }

  std::vector<Found> found_;
  std::vector<BadRow> bad_;
  std::vector<SkippedFile> skipped_;
  std::set<std::string> named_;  // the classes that files and folders are named after
  int64_t files_ = 0, links_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace

std::vector<int64_t> LabelledText::labels() const {
  std::vector<int64_t> all;
  for (const Example& one : examples) all.push_back(one.label);
  return all;
}

bool holds_texts(const fs::path& folder) {
  return std::ranges::any_of(walk_files(folder, "data", OnUnreadable::list).files, is_text);
}

LabelledText read_labelled_text(const fs::path& path, const LabelledTextOptions& options) {
  Reader reader;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    reader.add_folder(path, walk_files(path, options.name, OnUnreadable::fail, options.rules),
                      options);
  } else if (fs::exists(path, error)) {
    reader.add_rows(path, options);
  } else {
    fail(ErrorKind::data,
         "{}: no file or folder {}. Expected a table of labels and texts, a folder of class "
         "folders with a file per text, or a folder of files named after their class.",
         options.name, excerpt(path.string()));
  }
  LabelledText all = reader.finish(options);
  if (all.examples.empty()) {
    const std::string first = !all.bad.empty()
                                  ? fmt::format(" ({}: {})", all.bad[0].place, all.bad[0].reason)
                              : all.skipped.empty() ? ""
                                                    : fmt::format(" ({})", all.use());
    fail(ErrorKind::data,
         "{}: {} holds no labelled text{}. Expected class folders with a file per text, files "
         "named after their class with a text per line, or a table.",
         options.name, excerpt(path.string()), first);
  }
  if (options.classes.empty() && all.classes.size() < 2) {
    const std::string bad = all.bad.empty() ? ""
                                            : fmt::format(" ({} could not be used, such as {}: {})",
                                                          counted(std::ssize(all.bad), "text"),
                                                          all.bad[0].place, all.bad[0].reason);
    fail(ErrorKind::data,
         "{}: expected texts of at least two classes in {}, got only '{}'{}. Check "
         "data.label_column.",
         options.name, excerpt(path.string()), all.classes.front(), bad);
  }
  return all;
}

}  // namespace whisker
