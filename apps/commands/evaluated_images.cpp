#include "apps/commands/evaluated_images.h"

#include "apps/commands/number_columns.h"
#include "apps/commands/worst_page.h"
#include "core/error.h"
#include "data/files/csv.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <utility>

namespace whisker {
namespace {

constexpr std::string_view csv_columns = "path,label,predicted,loss";
constexpr OutputFormat csv_format{.name = "a CSV of evaluate --predictions",
                                  .is_own = is_predictions_csv};
constexpr OutputFormat page_format{.name = "a page of evaluate --worst", .is_own = is_worst_page};

}  // namespace

EvaluatedImage evaluated_image(std::string path, int64_t label, std::vector<float> probabilities) {
  const auto most = std::ranges::max_element(probabilities);
  const float own = std::max(probabilities[static_cast<size_t>(label)],
                             std::numeric_limits<float>::min());  // a loss of 87.3 at most
  const int64_t predicted = most - probabilities.begin();
  return {.path = std::move(path),
          .label = label,
          .predicted = predicted,
          .loss = std::abs(std::log(static_cast<double>(own))),
          .probabilities = std::move(probabilities)};
}

bool is_predictions_csv(std::string_view content) {
  constexpr size_t texts = 3;  // path, label, predicted
  const std::vector<std::string> columns = number_columns(content, texts);
  return content.starts_with(csv_columns) && columns.size() > texts + 1 &&
         std::all_of(columns.begin() + texts + 1, columns.end(),
                     [](const std::string& column) { return column.starts_with("probability "); });
}

std::string predictions_csv(const std::vector<EvaluatedImage>& images,
                            const std::vector<std::string>& classes) {
  std::string text(csv_columns);
  for (const std::string& name : classes) text += "," + csv_field("probability " + name);
  text += "\n";
  for (const EvaluatedImage& one : images) {
    text += fmt::format("{},{},{},{}", csv_field(one.path),
                        csv_field(classes[static_cast<size_t>(one.label)]),
                        csv_field(classes[static_cast<size_t>(one.predicted)]), one.loss);
    for (const float probability : one.probabilities) text += fmt::format(",{}", probability);
    text += "\n";
  }
  return text;
}

EvaluatedFiles::EvaluatedFiles(Outputs& outputs, const std::string& predictions,
                               const std::string& out)
    : outputs_(outputs) {
  if (!predictions.empty()) {
    predictions_ = outputs_.open("--predictions", predictions, csv_format);
  }
  if (!out.empty()) page_ = outputs_.open("--out", out, page_format);
}

void EvaluatedFiles::add_inputs(const ImageFolder& images, std::span<const std::string> given) {
  if (!predictions_ && !page_) return;
  for (const std::string& input : given) outputs_.add_data(input);
  for (int64_t i = 0; i < images.size(); ++i) outputs_.add_data(images.file(i));
}

void EvaluatedFiles::write(const Network& network, std::vector<EvaluatedImage> images, size_t worst,
                           const std::string& weights) {
  std::exception_ptr failed;
  if (predictions_) {
    try {
      predictions_->write(predictions_csv(images, network.classes()));
      outputs_.commit(*predictions_, "--predictions", csv_format);
    } catch (const Error&) {
      failed = std::current_exception();
    }
  }
  if (page_) {
    page_->write(worst_page(network, std::move(images), worst, weights));
    outputs_.commit(*page_, "--out", page_format);
  }
  if (failed) std::rethrow_exception(failed);
}

}  // namespace whisker
