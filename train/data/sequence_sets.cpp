#include "train/data/sequence_sets.h"

#include "core/error.h"
#include "core/io/file.h"
#include "core/io/hash.h"
#include "core/io/text.h"
#include "core/io/utf8.h"
#include "data/class_names.h"
#include "data/files/file_walk.h"
#include "data/files/text_file.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace whisker {

int64_t count_tokens(const LabelledText& text, std::span<const int64_t> indices,
                     const TextInput& input, TokenCounts& counts) {
  int64_t cut = 0;
  for (const int64_t index : indices) {
    const int64_t tokens = input.count(text.examples[static_cast<size_t>(index)].text, counts);
    cut += input.max_length > 0 && tokens > input.max_length ? 1 : 0;
  }
  return cut;
}

SequenceSet encode(const LabelledText& text, std::span<const int64_t> indices,
                   const TextInput& input) {
  SequenceSet set;
  for (const int64_t index : indices) {
    const LabelledText::Example& one = text.examples[static_cast<size_t>(index)];
    set.add_tokens(input.encode(one.text));
    set.labels.push_back(one.label);
  }
  return set;
}

std::vector<std::string> class_names(const LabelledRows& rows) {
  const std::set<std::string> found(rows.labels.begin(), rows.labels.end());
  std::vector<std::string> names(found.begin(), found.end());
  if (names.size() < 2) {
    fail(ErrorKind::data,
         "data.train: expected rows of at least two classes, got only {}. Check data.label_column.",
         quoted_list(names));
  }
  const auto is_number = [](const std::string& name) { return number_of(name).has_value(); };
  if (std::ranges::all_of(names, is_number)) {
    std::ranges::sort(names, {}, [](const std::string& name) { return *number_of(name); });
  }
  return names;
}

std::vector<int64_t> numbers_of(const LabelledRows& rows, std::span<const std::string> classes) {
  std::vector<int64_t> numbers;
  std::map<std::string_view, std::optional<int64_t>> known;
  for (size_t i = 0; i < rows.labels.size(); ++i) {
    const auto [number, is_new] = known.try_emplace(rows.labels[i]);
    if (is_new) number->second = class_number(classes, rows.labels[i]);
    if (!number->second) {
      fail(ErrorKind::data, "{}: {} is not a class of the training data: {}", rows.places[i],
           excerpt(rows.labels[i]), quoted_list({classes.begin(), classes.end()}));
    }
    numbers.push_back(*number->second);
  }
  return numbers;
}

SequenceSet encode(const LabelledRows& rows, std::span<const int64_t> indices,
                   const RowsInput& input, std::span<const std::string> classes) {
  SequenceSet set = scaled_sequences(rows, indices, input.scaling);
  const std::vector<int64_t> numbers = numbers_of(rows, classes);
  for (const int64_t index : indices) set.labels.push_back(numbers[static_cast<size_t>(index)]);
  return set;
}

std::vector<SequenceExample> examples_of(const LabelledText& text,
                                         std::span<const int64_t> indices) {
  std::vector<SequenceExample> examples;
  for (const int64_t index : indices) {
    const LabelledText::Example& one = text.examples[static_cast<size_t>(index)];
    examples.push_back({.place = one.place, .text = one.text});
  }
  return examples;
}

std::vector<SequenceExample> examples_of(const LabelledRows& rows,
                                         std::span<const int64_t> indices) {
  std::vector<SequenceExample> examples;
  for (const int64_t index : indices) {
    const auto i = static_cast<size_t>(index);
    examples.push_back({.place = rows.places[i], .values = rows.values[i]});
  }
  return examples;
}

std::vector<uint64_t> contents_of(const LabelledText& text) {
  std::vector<uint64_t> contents;
  for (const LabelledText::Example& one : text.examples) contents.push_back(hash64(one.text));
  return contents;
}

std::vector<uint64_t> contents_of(const LabelledRows& rows) {
  // Rows of classes and counts are alike by chance; measured ones and pixels are not.
  constexpr size_t least_different = 8;
  std::vector<uint64_t> contents = hashes_of(rows);
  for (size_t i = 0; i < contents.size(); ++i) {
    const std::vector<double>& values = rows.values[i];
    if (std::set<double>(values.begin(), values.end()).size() < least_different) contents[i] = 0;
  }
  return contents;
}

std::vector<uint64_t> hashes_of(const LabelledRows& rows) {
  std::vector<uint64_t> hashes;
  for (const std::vector<double>& values : rows.values) {
    Hash64 hash;
    hash.update(std::as_bytes(std::span(values)));
    hashes.push_back(hash.value());
  }
  return hashes;
}

std::vector<uint64_t> contents_of(std::string_view text) {
  std::set<uint64_t> contents;  // a line that is repeated counts once
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.size() >= least_line_bytes) contents.insert(hash64(line));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return {contents.begin(), contents.end()};
}

std::string read_plain_text(const std::filesystem::path& path, int rules) {
  constexpr size_t most_bytes = size_t{1} << 31;
  std::string text = read_file(path, most_bytes, ErrorKind::data, Source::stream);
  const bool utf16 = text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff");
  // UTF-8's own mark stays a character: runs that began with it resume.
  const bool decodes = utf16 || (rules > 2 && !text.starts_with("\xef\xbb\xbf"));
  if (const std::string fault = decodes ? decode_text(text, LineEnds::kept) : ""; !fault.empty()) {
    fail(ErrorKind::data, "{}: the file {}.", printable(path.string()), fault);
  }
  if (const size_t at = find_invalid_utf8(text); at != std::string::npos) {
    const auto line = 1 + std::ranges::count(text.substr(0, at), '\n');
    fail(ErrorKind::data, "{}:{}: byte {} of the file is not UTF-8", printable(path.string()), line,
         at + 1);
  }
  if (text.empty()) fail(ErrorKind::data, "{}: the text is empty", printable(path.string()));
  return text;
}

}  // namespace whisker
