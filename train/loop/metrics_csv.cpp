#include "train/loop/metrics_csv.h"

#include "core/error.h"
#include "core/io/atomic_file.h"
#include "core/io/json.h"

#include <fstream>
#include <utility>

namespace whisker {
namespace {

constexpr std::string_view epoch_line = R"({"kind":"epoch")";

}  // namespace

// A cell is empty where the line lacks the value, or has null for one that overflowed.
std::string MetricsCsv::row_of(std::string_view line) const {
  const JsonValue json = JsonValue::parse(line, {.name = "metrics.jsonl"});
  std::string row;
  for (const std::string& column : columns_) {
    if (!row.empty()) row += ",";
    const JsonValue* const cell = json.find(column);
    if (!cell || cell->is_null()) continue;
    row += cell->is_number() ? fmt::format("{}", cell->as_double())
                             : std::string(cell->as_bool() ? "1" : "0");
  }
  return row + "\n";
}

void MetricsCsv::begin(const std::filesystem::path& folder,
                       const std::vector<std::string>& figures) {
  columns_ = {"epoch", "step", "learning_rate", "train_loss", "train_accuracy", "val_loss"};
  for (const std::string& name : figures) columns_.push_back("val_" + name);
  columns_.insert(columns_.end(), {"best", "seconds"});
  try {
    std::string text = fmt::format("{}\n", fmt::join(columns_, ","));
    std::ifstream log(folder / "metrics.jsonl");
    for (std::string line; std::getline(log, line);) {
      if (line.starts_with(epoch_line)) text += row_of(line);
    }
    write_file_atomically(folder / "metrics.csv", text);
    file_ = std::make_unique<LogFile>(folder / "metrics.csv");
  } catch (const Error& error) {
    give_up(error.what());
  }
}

void MetricsCsv::add(std::string_view line) {
  if (!file_) return;
  try {
    file_->append(row_of(line));
  } catch (const Error& error) {
    give_up(error.what());
  }
}

std::string MetricsCsv::take_note() {
  return std::exchange(note_, "");
}

void MetricsCsv::give_up(std::string_view why) {
  file_.reset();
  note_ = fmt::format("{} The run goes on without metrics.csv; metrics.jsonl has the same.", why);
}

}  // namespace whisker
