#include "apps/commands/evaluated_examples.h"

#include "apps/commands/number_columns.h"
#include "core/communicator/rank_agreement.h"
#include "core/error.h"
#include "core/io/duration.h"
#include "data/files/csv.h"
#include "train/metrics/validation_examples.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <exception>
#include <utility>

namespace whisker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view csv_columns = "path,label,predicted,loss";
constexpr OutputFormat csv_format{.name = "a CSV of evaluate --predictions",
                                  .is_own = is_predictions_csv};
constexpr OutputFormat page_format{.name = "a page of evaluate --report",
                                   .is_own = is_evaluation_report};

// An example for rank 0, and back: number and label, then probabilities.
std::string packed_example(const EvaluatedExample& one) {
  const std::array numbers = {one.number, one.label};
  std::string text(reinterpret_cast<const char*>(numbers.data()), sizeof numbers);
  return text.append(reinterpret_cast<const char*>(one.probabilities.data()),
                     one.probabilities.size() * sizeof(float));
}

EvaluatedExample unpacked_example(const std::string& text) {
  std::array<int64_t, 2> numbers{};
  std::memcpy(numbers.data(), text.data(), sizeof numbers);
  std::vector<float> probabilities((text.size() - sizeof numbers) / sizeof(float));
  std::memcpy(probabilities.data(), text.data() + sizeof numbers,
              probabilities.size() * sizeof(float));
  EvaluatedExample one = evaluated_example(numbers[1], std::move(probabilities));
  one.number = numbers[0];
  return one;
}

}  // namespace

EvaluatedExample evaluated_example(int64_t label, std::vector<float> probabilities) {
  const auto most = std::ranges::max_element(probabilities);
  const double loss = example_loss(probabilities[static_cast<size_t>(label)]);
  const int64_t predicted = most - probabilities.begin();
  return {.path = {},
          .label = label,
          .predicted = predicted,
          .loss = loss,
          .probabilities = std::move(probabilities)};
}

void OwnExamples::add(const Tensor& probabilities, const Batch& batch) {
  const auto width = static_cast<size_t>(probabilities.extent(1));
  auto rest = probabilities.data<const float>();
  const auto labels = batch.labels.data<const int64_t>();
  for (size_t i = 0; i < batch.indices.size(); ++i) {
    const auto row = rest.first(width);
    own_.push_back(evaluated_example(labels[i], {row.begin(), row.end()}));
    own_.back().number = batch.indices[i];
    rest = rest.subspan(width);
  }
}

// They come a block at a time, as one message cannot hold any number of them.
std::vector<EvaluatedExample> OwnExamples::of_all_ranks(RankGroup& ranks) {
  constexpr size_t block = 1024;
  std::vector<EvaluatedExample> all;
  if (ranks.world() == 1) all = std::exchange(own_, {});
  size_t most = 0;
  for (const size_t count : ranks.gather(own_.size())) most = std::max(most, count);
  for (size_t begin = 0; begin < most; begin += block) {
    std::vector<std::string> some;
    for (size_t i = begin; i < std::min(begin + block, own_.size()); ++i) {
      some.push_back(packed_example(own_[i]));
    }
    for (const std::vector<std::string>& texts : gather_texts(ranks, some)) {
      if (!ranks.leads()) break;
      for (const std::string& text : texts) all.push_back(unpacked_example(text));
    }
  }
  own_.clear();
  std::ranges::sort(all, {}, &EvaluatedExample::number);
  return all;
}

bool is_predictions_csv(std::string_view content) {
  constexpr size_t texts = 3;  // path, label, predicted
  const std::vector<std::string> columns = number_columns(content, texts);
  return content.starts_with(csv_columns) && columns.size() > texts + 1 &&
         std::all_of(columns.begin() + texts + 1, columns.end(),
                     [](const std::string& column) { return column.starts_with("probability "); });
}

std::string predictions_csv(const std::vector<EvaluatedExample>& examples,
                            const std::vector<std::string>& classes, const fs::path& folder) {
  const fs::path here = fs::current_path();
  const fs::path back = folder.empty() || folder == here ? "" : here.lexically_relative(folder);
  std::string text(csv_columns);
  for (const std::string& name : classes) text += "," + csv_field("probability " + name);
  text += "\n";
  for (const EvaluatedExample& one : examples) {
    text += fmt::format("{},{},{},{}", csv_field((back / one.path).string()),
                        csv_field(classes[static_cast<size_t>(one.label)]),
                        csv_field(classes[static_cast<size_t>(one.predicted)]), one.loss);
    for (const float probability : one.probabilities) text += fmt::format(",{}", probability);
    text += "\n";
  }
  return text;
}

EvaluatedFiles::EvaluatedFiles(Outputs& outputs, const std::string& predictions,
                               const std::string& report)
    : outputs_(outputs) {
  if (!predictions.empty()) {
    predictions_ = outputs_.open("--predictions", predictions, csv_format);
  }
  if (!report.empty()) page_ = outputs_.open("--report", report, page_format);
}

void EvaluatedFiles::add_input(const fs::path& input) {
  if (any()) outputs_.add_data(input);
}

void EvaluatedFiles::write_predictions(const Network& network,
                                       const std::vector<EvaluatedExample>& examples) {
  fs::path folder;  // a real path: "../.." leads from it
  if (!predictions_->is_stream()) {
    folder = fs::canonical(fs::absolute(predictions_->path()).parent_path());
  }
  predictions_->write(predictions_csv(examples, network.classes(), folder));
  outputs_.commit(*predictions_, "--predictions", csv_format);
}

int EvaluatedFiles::write(const std::function<int()>& print,
                          const std::vector<EvaluatedExample>& examples, EvaluationRecord record) {
  int code = 0;
  std::exception_ptr unprinted, unwritten;
  try {
    code = print();
  } catch (...) {
    unprinted = std::current_exception();
  }
  try {
    if (predictions_) write_predictions(record.network, examples);
  } catch (const Error&) {
    unwritten = std::current_exception();
  }
  if (page_) {
    for (const EvaluatedExample& one : examples) {
      record.paths.push_back(one.path);
      if (one.shown.empty()) continue;
      record.shown.push_back(one.shown);
      record.curves.push_back(one.curve);
    }
    record.date = local_time_text(std::time(nullptr));
    page_->write(evaluation_report(std::move(record)));
    outputs_.commit(*page_, "--report", page_format);
  }
  for (const std::exception_ptr& failed : {unwritten, unprinted}) {
    if (failed) std::rethrow_exception(failed);
  }
  return code;
}

}  // namespace whisker
