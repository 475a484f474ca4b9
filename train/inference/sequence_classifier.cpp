// Batches in the order given, each padded to its own longest sequence.
#include "train/inference/sequence_classifier.h"

#include "core/autograd/autograd.h"
#include "core/io/utf8.h"
#include "train/data/sequence_sets.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace whisker {
namespace {

// Fills in the probabilities of `results` from sequences of `set`, in the same order without those
// that have an error, and reports all.
void classify(const Network& network, const SequenceSet& set, std::vector<Prediction>& results,
              const std::function<void(const Prediction&)>& report) {
  const NoGrad no_grad;
  Tensor scores;
  if (set.size() > 0) {
    std::vector<int64_t> indices(static_cast<size_t>(set.size()));
    std::iota(indices.begin(), indices.end(), 0);
    const Batch batch = make_batch(set, indices, set.longest());
    scores = network.probabilities(network.outputs(batch)).to(cpu_device);
  }
  report_predictions(network, scores, results, report);
}

}  // namespace

void classify_texts(const Network& network, const NextInputs& next, int64_t batch_size,
                    const std::function<void(const Prediction&)>& report) {
  const auto& input = network.input<TextInput>();
  for (;;) {
    const std::vector<std::string> texts = next(static_cast<size_t>(batch_size));
    if (texts.empty()) return;
    SequenceSet set;
    std::vector<Prediction> results;
    for (const std::string& text : texts) {
      Prediction result{.name = text, .probabilities = {}, .error = {}};
      if (find_invalid_utf8(text) != std::string_view::npos) {
        result.error = "the text is not UTF-8";
      } else if (const std::vector<int64_t> tokens = input.encode(text); tokens.empty()) {
        result.error = "the text holds no token";
      } else {
        set.add_tokens(tokens);
      }
      results.push_back(std::move(result));
    }
    classify(network, set, results, report);
  }
}

void classify_rows(const Network& network, const LabelledRows& rows, int64_t batch_size,
                   const std::function<void(const Prediction&)>& report) {
  const auto& input = network.input<RowsInput>();
  const int64_t count = std::ssize(rows.values);
  for (int64_t first = 0; first < count; first += batch_size) {
    std::vector<int64_t> indices(static_cast<size_t>(std::min(batch_size, count - first)));
    std::iota(indices.begin(), indices.end(), first);
    std::vector<Prediction> results;
    for (const int64_t index : indices) {
      results.push_back(
          {.name = rows.places[static_cast<size_t>(index)], .probabilities = {}, .error = {}});
    }
    classify(network, scaled_sequences(rows, indices, input.scaling), results, report);
  }
}

std::vector<double> forecast(const Network& network, const Series& series) {
  const NoGrad no_grad;
  const SequenceSet set = last_window(series, network.input<SeriesInput>());
  const int64_t index = 0;
  const Tensor outputs =
      network.outputs(make_batch(set, {&index, 1}, set.longest())).to(cpu_device);
  network.check_outputs(outputs.data<const float>(), "the forecast");
  std::vector<double> values;
  for (int64_t j = 0; j < set.outputs; ++j) {
    values.push_back(set.bases->restore(0, j, outputs.data<const float>()[static_cast<size_t>(j)]));
  }
  return values;
}

}  // namespace whisker
