// What a report shows of single examples, made while the data and the best weights are at hand.
#include "core/error.h"
#include "core/io/duration.h"
#include "core/io/text.h"
#include "data/codec/encode_jpeg.h"
#include "train/inference/class_activation.h"
#include "train/inference/shown_example.h"
#include "train/model/network.h"
#include "train/report/report_examples.h"

#include <algorithm>
#include <chrono>
#include <optional>

namespace whisker {

void write_examples_file(const std::filesystem::path& file, const ReportExamples& all);

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr size_t shown_samples = 12;
constexpr size_t most_bytes_of_images = 1'500'000;  // a third more in the page

// The mean of blocks, where an image is larger than is shown.
Image shrunk(const Image& image, int most_pixels) {
  const int block = (std::max(image.height, image.width) + most_pixels - 1) / most_pixels;
  if (block <= 1) return image;
  Image small;
  small.reshape(std::max(1, image.height / block), std::max(1, image.width / block));
  for (int y = 0; y < small.height; ++y) {
    for (int x = 0; x < small.width; ++x) {
      for (int c = 0; c < 3; ++c) {
        int sum = 0, count = 0;
        for (int row = y * block; row < std::min((y + 1) * block, image.height); ++row) {
          for (int column = x * block; column < std::min((x + 1) * block, image.width); ++column) {
            sum += image.rgb[static_cast<size_t>((row * image.width + column) * 3 + c)];
            ++count;
          }
        }
        small.rgb[static_cast<size_t>((y * small.width + x) * 3 + c)] =
            static_cast<uint8_t>(sum / count);
      }
    }
  }
  return small;
}

class ExampleCollection {
 public:
  ExampleCollection(const Network& network, const ExampleSources& sources)
      : network_(network), sources_(sources), allowed_(std::max(2.0, 0.01 * sources.seconds)) {}

  void add_images(const ValidationExamples& validation) {
    for (const int64_t index : worst_mistakes(validation, shown_mistakes)) {
      if (!add_image(all_.mistakes, validation, index, validation.predicted(index))) break;
    }
    for (const int64_t index : spread(validation.size())) {
      if (!add_image(all_.validation, validation, index, -1)) break;
    }
    if (!sources_.training) return;
    for (const int64_t index : spread(sources_.training->size())) {
      if (!go_on()) break;
      try {
        const Sample sample = sources_.training->sample({.index = index, .epoch = 0});
        ReportExample example{.label = network_.classes()[static_cast<size_t>(sample.label)]};
        example.seen = shown_jpeg(seen_image(network_.preprocess().normalisation, sample.input));
        keep(all_.training, std::move(example));
      } catch (const Error& error) {
        all_.left_out = error.what();
      }
    }
  }

  void add_sequences(const ValidationExamples& validation,
                     const std::vector<SequenceExample>& examples) {
    if (std::ssize(examples) != validation.size()) return;
    const bool text = std::holds_alternative<TextInput>(network_.signature().input);
    for (const int64_t index : worst_mistakes(validation, shown_mistakes)) {
      if (!go_on()) break;
      const SequenceExample& one = examples[static_cast<size_t>(index)];
      const InputDescription& input = network_.signature().input;
      ReportExample example{.index = index, .curve = shown_curve(one, input)};
      if (example.curve.empty()) example.text = shown_text(one, input);
      constexpr size_t most_words = 6;
      if (text) {
        example.words =
            weightiest_tokens(network_, one.text, validation.predicted(index), most_words);
      }
      keep(all_.mistakes, std::move(example));
    }
  }

  ReportExamples take() { return std::move(all_); }

 private:
  static std::vector<int64_t> spread(int64_t size) {
    std::vector<int64_t> indices;
    const auto count = std::min<int64_t>(size, shown_samples);
    for (int64_t i = 0; i < count; ++i) indices.push_back((2 * i + 1) * size / (2 * count));
    return indices;
  }

  bool add_image(std::vector<ReportExample>& list, const ValidationExamples& validation,
                 int64_t index, int64_t of_class) {
    if (!go_on()) return false;
    const auto at = static_cast<size_t>(index);
    ReportExample example{.index = index,
                          .label = validation.classes[static_cast<size_t>(validation.labels[at])]};
    if (at >= validation.paths.size()) return false;
    const fs::path file = sources_.images.val.root / validation.paths[at];
    try {
      ShownImage shown;
      try {
        shown = shown_image(network_, file, maps_ ? of_class : -1);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::usage || !maps_) throw;
        maps_ = false;  // the network keeps no rows and columns
        all_.left_out = error.what();
        shown = shown_image(network_, file);
      }
      example.seen = shown_jpeg(shown.seen);
      if (!shown.heat.rgb.empty()) example.heat = shown_jpeg(shown.heat);
    } catch (const Error& error) {
      all_.left_out = error.what();
    }
    keep(list, std::move(example));
    return true;
  }

  void keep(std::vector<ReportExample>& list, ReportExample example) {
    bytes_ += example.seen.size() + example.heat.size();
    list.push_back(std::move(example));
  }

  bool go_on() {
    const double spent = std::chrono::duration<double>(Clock::now() - start_).count();
    if (spent > allowed_) {
      all_.left_out = fmt::format("the others, as making them would take longer than {}",
                                  human_seconds(allowed_));
    } else if (bytes_ > most_bytes_of_images) {
      all_.left_out = "the others, as the page would become too large";
    } else {
      return true;
    }
    return false;
  }

  const Network& network_;
  const ExampleSources& sources_;
  double allowed_;  // seconds
  Clock::time_point start_ = Clock::now();
  size_t bytes_ = 0;
  bool maps_ = true;
  ReportExamples all_;
};

}  // namespace

std::string shown_jpeg(const Image& image, int most_pixels) {
  constexpr int quality = 82;
  const std::vector<uint8_t> bytes =
      encode_jpeg(shrunk(image, most_pixels), {.quality = quality, .comment = ""});
  return {bytes.begin(), bytes.end()};
}

std::vector<int64_t> worst_mistakes(const ValidationExamples& examples, size_t most) {
  std::vector<int64_t> wrong;
  if (examples.is_forecast()) return wrong;
  for (int64_t i = 0; i < examples.size(); ++i) {
    if (!examples.is_correct(i)) wrong.push_back(i);
  }
  const auto loss = [&](int64_t i) { return examples.losses[static_cast<size_t>(i)]; };
  const auto end = wrong.begin() + static_cast<ptrdiff_t>(std::min(most, wrong.size()));
  std::partial_sort(wrong.begin(), end, wrong.end(), [&](int64_t a, int64_t b) {
    return loss(a) != loss(b) ? loss(a) > loss(b) : a < b;
  });
  wrong.erase(end, wrong.end());
  return wrong;
}

void write_report_examples(const fs::path& run, const ExampleSources& sources) {
  const fs::path file = run / "examples.safetensors";
  const fs::path best = run / "best.safetensors", validated = run / "validation.safetensors";
  const DataKind kind = sources.config.data.kind;
  const bool classes = kind == DataKind::images || kind == DataKind::text || kind == DataKind::rows;
  if (!classes || !fs::exists(best) || !fs::exists(validated)) return;
  const ValidationExamples validation = read_validation_examples(validated);
  if (fs::exists(file)) {
    try {
      if (read_report_examples(file).epoch == validation.epoch) return;
    } catch (const Error&) {
      // Damaged: it is made again.
    }
  }
  const Network network = Network::load(best, cpu_device);
  if (validation.classes != network.classes()) {
    fail(ErrorKind::checkpoint, "{}: its classes are not those of best.safetensors.",
         printable(validated.string()));
  }
  ExampleCollection collection(network, sources);
  if (kind == DataKind::images) {
    collection.add_images(validation);
  } else {
    const RunData again = open_data(sources.config, {}, KeepExamples::yes);
    collection.add_sequences(validation, again.val_examples);
  }
  ReportExamples all = collection.take();
  all.epoch = validation.epoch;
  write_examples_file(file, all);
}

}  // namespace whisker
