#include "apps/terminal/sequence_details.h"

#include "apps/terminal/inputs.h"
#include "core/io/hash.h"
#include "core/io/text.h"
#include "data/sequences/series.h"
#include "train/data/sequence_sets.h"
#include "train/inference/shown_example.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

namespace whisker {
namespace {

using Example = SequenceDetails::Example;
using Column = SequenceDetails::Column;

// RunData::train_contents are 0 for short rows.
uint64_t content_of(const SequenceExample& example) {
  Hash64 hash;
  hash.update(example.text);
  hash.update(std::as_bytes(std::span(example.values)));
  return hash.value();
}

class Details {
 public:
  Details(const ReadSequences& read, SequenceDetails& details)
      : config_(read.config), data_(read.data), read_(read), details_(details) {}

  void add() {
    details_.of = data_.signature.examples();
    details_.validation = validation_text();
    for (const int64_t label :
         data_.signature.classes.empty() ? std::span<const int64_t>() : read_.val_labels) {
      ++details_.val_per_class[data_.signature.classes[static_cast<size_t>(label)]];
    }
    if (!data_.train_examples.empty()) {
      add_examples();
      add_copies();
    }
    if (std::holds_alternative<RowsInput>(data_.signature.input)) {
      add_row_columns(data_.train_examples, "training");
      add_row_columns(data_.val_examples, "validation");
    }
    if (const auto* series = std::get_if<SeriesInput>(&data_.signature.input)) add_series(*series);
    if (data_.signature.task() == Task::language_model) add_text_begin();
  }

 private:
  std::string validation_text() const {
    const DataConfig& data = config_.data;
    if (!data.val.empty()) {
      return fmt::format("Validation is data.val, {}.", name_of_data(data.val));
    }
    const bool by_class = !data_.signature.classes.empty() && !data_.train_examples.empty();
    return by_class
               ? fmt::format("Validation is {} of each class (data.val_split), chosen by seed={}.",
                             data.val_split, config_.seed)
               : fmt::format("Validation is the last {} of the data (data.val_split).",
                             data.val_split);
  }

  Example shown(int64_t index, bool in_val) const {
    const auto at = static_cast<size_t>(index);
    const SequenceExample& example = (in_val ? data_.val_examples : data_.train_examples)[at];
    const int64_t label = (in_val ? read_.val_labels : read_.train_labels)[at];
    return {.place = example.place,
            .shown = shown_text(example, data_.signature.input),
            .of_class = data_.signature.classes[static_cast<size_t>(label)],
            .in_val = in_val};
  }

  // A few of each class, evenly over the data.
  void add_examples() {
    constexpr size_t most_examples = 240, most_of_class = 4;
    const size_t classes = data_.signature.classes.size();
    const size_t each = std::clamp<size_t>(most_examples / classes, 1, most_of_class);
    std::vector<std::vector<int64_t>> of_class(classes);
    for (size_t i = 0; i < read_.train_labels.size(); ++i) {
      of_class[static_cast<size_t>(read_.train_labels[i])].push_back(static_cast<int64_t>(i));
    }
    for (size_t c = 0; c < std::min(classes, most_examples); ++c) {
      const size_t count = std::min(each, of_class[c].size());
      for (size_t i = 0; i < count; ++i) {
        const int64_t index = of_class[c][(2 * i + 1) * of_class[c].size() / (2 * count)];
        const SequenceExample& example = data_.train_examples[static_cast<size_t>(index)];
        const auto curve = shown_curve(example, data_.signature.input);
        if (curve.empty()) {
          details_.examples[data_.signature.classes[c]].push_back(shown(index, false));
        } else {
          const std::string line = example.place.substr(example.place.rfind(':') + 1);
          details_.curves[data_.signature.classes[c]].push_back(line_of(line, curve));
        }
      }
    }
  }

  using Place = std::pair<int64_t, bool>;  // an example's index, and whether it is in validation
  struct Group {
    std::vector<Place> examples;
    bool across_splits = false, across_classes = false;
  };

  int64_t label_of(const Place& place) const {
    return (place.second ? read_.val_labels : read_.train_labels)[static_cast<size_t>(place.first)];
  }

  // A few of a group that may be most of the data.
  SequenceDetails::Copies copies_of(const Group& group) const {
    constexpr size_t most_shown = 6;
    std::vector<Place> some, others;
    std::set<std::pair<bool, int64_t>> seen;
    for (const Place& one : group.examples) {
      const bool is_new = seen.emplace(one.second, label_of(one)).second;
      if (some.size() == most_shown) break;
      if (is_new) some.push_back(one);
      if (!is_new && others.size() < most_shown) others.push_back(one);
    }
    for (size_t i = 0; i < others.size() && some.size() < most_shown; ++i) {
      some.push_back(others[i]);
    }
    SequenceDetails::Copies copies{.some = {}, .count = std::ssize(group.examples)};
    for (const auto& [index, in_val] : some) copies.some.push_back(shown(index, in_val));
    return copies;
  }

  // Groups of equal content: of a text, or of the values of a row.
  void add_copies() {
    constexpr size_t most_groups = 1000;
    std::unordered_map<uint64_t, std::vector<Place>> by_content;
    const auto add = [&](const std::vector<SequenceExample>& all, bool in_val) {
      for (size_t i = 0; i < all.size(); ++i) {
        by_content[content_of(all[i])].emplace_back(static_cast<int64_t>(i), in_val);
      }
    };
    add(data_.train_examples, false);
    add(data_.val_examples, true);
    std::vector<Group> groups;
    for (auto& [content, same] : by_content) {
      if (same.size() < 2) continue;
      Group group{.examples = std::move(same)};
      for (const auto& one : group.examples) {
        group.across_splits |= one.second != group.examples[0].second;
        group.across_classes |= label_of(one) != label_of(group.examples[0]);
      }
      details_.copies_across_splits += group.across_splits;
      details_.copies_across_classes += group.across_classes;
      groups.push_back(std::move(group));
    }
    std::ranges::sort(groups, [](const Group& a, const Group& b) {
      const int of_a = a.across_splits + a.across_classes;
      const int of_b = b.across_splits + b.across_classes;
      return of_a != of_b ? of_a > of_b : a.examples[0] < b.examples[0];
    });
    details_.groups = std::ssize(groups);
    groups.resize(std::min(groups.size(), most_groups));
    for (const Group& group : groups) details_.copies.push_back(copies_of(group));
  }

  void add_column(std::string name, std::string part, std::span<const double> values) {
    Column column{.name = std::move(name), .part = std::move(part)};
    double sum = 0, squares = 0;
    for (const double value : values) {
      if (!std::isfinite(value)) {
        ++column.missing;
        continue;
      }
      column.least = column.values == 0 ? value : std::min(column.least, value);
      column.most = column.values == 0 ? value : std::max(column.most, value);
      ++column.values;
      sum += value;
    }
    const auto count = static_cast<double>(std::max<int64_t>(1, column.values));
    column.mean = sum / count;
    for (const double value : values) {
      if (std::isfinite(value)) squares += (value - column.mean) * (value - column.mean);
    }
    column.deviation = std::sqrt(squares / count);
    details_.columns.push_back(std::move(column));
  }

  // Columns of a table that names each value of a row; else each value of a step.
  void add_row_columns(const std::vector<SequenceExample>& rows, const std::string& part) {
    const auto& input = std::get<RowsInput>(data_.signature.input);
    const bool named = !input.names.empty();
    const std::vector<std::string> names = named ? input.names : input.value_names();
    std::vector<std::vector<double>> values(names.size());
    for (const SequenceExample& row : rows) {
      for (size_t i = 0; i < row.values.size() && (!named || i < names.size()); ++i) {
        values[i % names.size()].push_back(row.values[i]);
      }
      for (size_t i = row.values.size(); named && i < names.size(); ++i) {
        values[i].push_back(std::numeric_limits<double>::quiet_NaN());
      }
    }
    for (size_t i = 0; i < names.size(); ++i) add_column(names[i], part, values[i]);
  }

  void add_series(const SeriesInput& input) {
    constexpr int64_t most_points = 600;
    constexpr size_t most_drawn = 6;
    const auto rules = static_cast<int>(config_.data.rules);
    const bool split = config_.data.val.empty();
    for (const bool in_val : {false, true}) {
      if (in_val && split) continue;
      const std::string& path = in_val ? config_.data.val : config_.data.train;
      const Series series = read_series(path, input, 1, rules);
      const int64_t cut =
          split ? first_validation_row(series.rows(), config_.data.val_split) : series.rows();
      if (split) {
        details_.val_begin = cut + 1;
        details_.validation = fmt::format(
            "Validation begins at row {} of {}: the last {} of the rows (data.val_split). "
            "Windows of the validation part may begin before that row.",
            grouped(cut + 1), grouped(series.rows()), config_.data.val_split);
      }
      const auto names = input.columns;
      for (size_t column = 0; column < names.size(); ++column) {
        std::vector<double> values;
        for (int64_t row = 0; row < series.rows(); ++row) values.push_back(series.at(row, column));
        const std::string name = column < input.names.size() ? input.names[column] : names[column];
        const std::span all(values);
        add_column(name, in_val ? "validation" : "training", all.first(static_cast<size_t>(cut)));
        if (split) add_column(name, "validation", all.subspan(static_cast<size_t>(cut)));
        if (in_val || column >= most_drawn) continue;
        ChartSeries drawn{.name = name};
        const int64_t every = (series.rows() + most_points - 1) / most_points;
        for (int64_t row = 0; row < series.rows(); row += every) {
          drawn.x.push_back(static_cast<double>(row + 1));
          drawn.y.push_back(values[static_cast<size_t>(row)]);
        }
        details_.drawn.push_back(std::move(drawn));
      }
    }
  }

  void add_text_begin() {
    const auto rules = static_cast<int>(config_.data.rules);
    const std::string text = read_plain_text(config_.data.train, rules);
    details_.examples[""].push_back(
        {.place = config_.data.train,
         .shown = shown_text({.place = "", .text = text}, data_.signature.input)});
  }

  const Config& config_;
  const RunData& data_;
  const ReadSequences& read_;
  SequenceDetails& details_;
};

}  // namespace

void add_details(const ReadSequences& read, SequenceDetails& details) {
  Details(read, details).add();
}

}  // namespace whisker
