#include "train/inference/test_set.h"

#include "data/images/image_dataset.h"
#include "data/loader/device_loader.h"
#include "train/data/labelled_sequences.h"
#include "train/metrics/evaluate.h"

namespace whisker {

TestResult measure_test_set(const Config& config, const std::filesystem::path& weights,
                            Device device, DType compute) {
  const Network network = Network::load(weights, device, {}, compute);
  const DataConfig& data = config.data;
  const std::vector<int64_t> counts(network.classes().size(), 1);  // of no weight here
  const Objective objective(network.model(), network.signature(), {}, counts, device);
  if (data.kind != DataKind::images) {
    LabelledSequences test = open_labelled(
        network, data.test, {.keep = KeepExamples::yes, .rules = static_cast<int>(data.rules)},
        config.train.batch_size);
    TestResult result{.metrics = evaluate(network, objective, *test.source),
                      .bad = std::move(test.notes),
                      .contents = std::move(test.contents),
                      .examples = std::move(test.examples)};
    if (!test.use.empty()) result.bad.push_back(test.use);
    for (const BadRow& row : test.bad) {
      result.bad.push_back(fmt::format("skipped: {}: {}", row.place, row.reason));
    }
    return result;
  }
  const ImageFolder files = open_image_folder(data.test, {.label_pattern = data.label_pattern,
                                                          .classes = network.classes(),
                                                          .name = "data.test",
                                                          .rules = static_cast<int>(data.rules)});
  const auto dataset = std::make_shared<ImageDataset>(
      files,
      ImageDatasetOptions{.preprocess = network.preprocess(), .max_pixels = data.max_pixels});
  const auto loader =
      make_loader(dataset, sequential_sampler(files.size()),
                  {.batch_size = config.train.batch_size,
                   .workers = static_cast<int>(data.workers.value.value_or(auto_workers)),
                   .on_bad = OnBad::skip,
                   .max_bad = data.max_bad},
                  {.device = device, .dtype = network.arena().compute_dtype()});
  TestResult result{.metrics = evaluate(network, objective, *loader), .bad = {}};
  for (const BadSample& bad : loader->bad_samples()) {
    result.bad.push_back(fmt::format("unreadable: {}", bad.reason));
  }
  return result;
}

}  // namespace whisker
