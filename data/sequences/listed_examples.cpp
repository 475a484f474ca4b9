#include "data/sequences/listed_examples.h"

#include "core/error.h"
#include "core/io/text.h"
#include "data/class_names.h"
#include "data/files/file_walk.h"
#include "data/files/label_table.h"

#include <map>
#include <system_error>
#include <utility>

namespace whisker {
namespace {

namespace fs = std::filesystem;

std::string whole_place(const fs::path& place) {
  return fs::absolute(place).lexically_normal().string();
}

// A real path: what ".." leads to from it does not depend on links.
fs::path folder_of(const fs::path& csv) {
  std::error_code error;
  return fs::canonical(fs::absolute(csv).parent_path(), error);
}

// "reviews.csv" of "reviews.csv:12"; "" where no number follows a colon.
std::string file_of_line(const std::string& place) {
  const size_t colon = place.rfind(':');
  if (colon == std::string::npos || !is_column_number(place.substr(colon + 1))) return "";
  return place.substr(0, colon);
}

}  // namespace

ListedExamples listed_examples(const fs::path& csv, const HeldExamples& held,
                               std::span<const std::string> classes) {
  const LabelTable table = read_label_table(csv);
  const fs::path folder = folder_of(csv);
  std::map<std::string, size_t> usable, unusable;
  for (size_t i = 0; i < held.places.size(); ++i) usable.emplace(whole_place(held.places[i]), i);
  for (size_t i = 0; i < held.bad.size(); ++i) unusable.emplace(whole_place(held.bad[i].place), i);
  ListedExamples listed{.indices = {}, .labels = {}, .bad = {}, .notes = table.notes};
  ListedOnce once(table);
  std::map<size_t, int64_t> labels;  // by index
  int64_t relabelled = 0, nowhere = 0;
  for (const CsvRow& row : table.rows) {
    const std::string& written = row.fields[table.path];
    std::string place = whole_place(folder / written);
    if (!usable.contains(place)) place = whole_place(folder / csv_text(written));
    once.add(place, row);
    const auto refuse = [&](std::string reason) {
      listed.bad.push_back(
          {fmt::format("{}:{}", table.name, row.line), std::move(reason), row.line});
    };
    const auto found = usable.find(place);
    if (const auto bad = unusable.find(place); bad != unusable.end()) {
      listed.bad.push_back(held.bad[bad->second]);
    } else if (found == usable.end()) {
      ++nowhere;
      refuse(fmt::format("there is no example {}", excerpt(written)));
    } else {
      const std::string label = csv_text(row.fields[table.label]);
      const std::optional<int64_t> number = class_number(classes, label);
      if (!number) {
        refuse(fmt::format("{} is not a class of the model, which has {}", excerpt(label),
                           quoted_list({classes.begin(), classes.end()})));
        continue;
      }
      labels.emplace(found->second, *number);
      const std::string& name = classes[static_cast<size_t>(*number)];
      relabelled += !held.labels.empty() && held.labels[found->second] != name ? 1 : 0;
    }
  }
  for (const auto& [index, label] : labels) {
    listed.indices.push_back(static_cast<int64_t>(index));
    listed.labels.push_back(label);
  }
  if (labels.empty() && std::cmp_less(nowhere, listed.bad.size())) {
    fail(ErrorKind::data, "evaluate --csv: not one row of {} can be used, such as {}: {}.",
         table.name, listed.bad.front().place, listed.bad.front().reason);
  }
  if (labels.empty()) {
    fail(ErrorKind::data,
         "evaluate --csv: {} lists none of the {} examples of DATA, such as {}: its paths are "
         "relative to its own folder.",
         table.name, held.places.size(), excerpt(held.places.front()));
  }
  if (labels.size() < held.places.size()) {
    const size_t unlisted = held.places.size() - labels.size();
    listed.notes.push_back(fmt::format("{}: {} of the {} examples {} not listed", table.name,
                                       unlisted, held.places.size(), unlisted == 1 ? "is" : "are"));
  }
  if (relabelled > 0) {
    listed.notes.push_back(fmt::format(
        "{}: {} of its {} labels {} in the data, and count{} instead", table.name, relabelled,
        labels.size(), relabelled == 1 ? "differs from that" : "differ from those",
        relabelled == 1 ? "s" : ""));
  }
  return listed;
}

std::optional<fs::path> listed_table(const fs::path& csv) {
  const LabelTable table = read_label_table(csv);
  std::string first;
  for (const CsvRow& row : table.rows) {
    std::string file = file_of_line(csv_text(row.fields[table.path]));
    if (file.empty() || (!first.empty() && file != first)) return std::nullopt;
    first = std::move(file);
  }
  return (folder_of(csv) / first).lexically_normal().lexically_proximate(fs::current_path());
}

}  // namespace whisker
