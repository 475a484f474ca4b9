// What a run with train.tensorboard writes for TensorBoard, to tensorboard/ in the run folder.
#pragma once

#include "data/images/image_dataset.h"
#include "train/loop/event_file.h"
#include "train/loop/events.h"
#include "train/metrics/metrics.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace whisker {

class TensorboardLog {
 public:
  /// From `step` on, as a new session: what an earlier one logged behind it counts no more. What
  /// fails ends the log, not the run: it becomes a take_note().
  void begin(const std::filesystem::path& folder, int64_t step);

  /// A few of these images, of validation, as the network sees them.
  void images(const ImageDataset& dataset);

  /// Nothing before begin().
  void step(const StepEvent& event);
  void epoch(const EpochEvent& event, int64_t step);
  void validation(const Metrics& metrics, int64_t step);
  /// A message for the user, once; "" for none.
  std::string take_note();

 private:
  template <class Write>
  void attempt(Write write);
  void add_validation(double loss, const std::vector<Figure>& figures, int64_t step);

  std::optional<EventFile> file_;
  std::string note_;
};

}  // namespace whisker
