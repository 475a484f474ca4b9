// A recorded step as frames: an operator forward or backward each, in the order of the step. A
// frame is a function of the recording alone, so that going back shows what was shown before.
#pragma once

#include "core/trace/recording.h"

#include <string>
#include <vector>

namespace whisker {

class JsonWriter;

struct StepFrame {
  bool backward = false;
  size_t entry = 0;
};

struct FrameOptions {
  size_t width = 100;       ///< columns of a line; 0: no limit
  bool all_values = false;  ///< with the digits that tell them apart, instead of the first few
};

class StepFrames {
 public:
  /// `recording` outlives this.
  explicit StepFrames(const Recording& recording);

  size_t count() const { return frames_.size(); }
  /// The frame of the loss: the last operator forward.
  size_t loss() const { return loss_; }
  /// Lines that end in a newline.
  std::string text(size_t frame, const FrameOptions& options = {}) const;
  void write_json(JsonWriter& json, size_t frame) const;
  /// The next frame after `frame`, round about, whose operator, layer or parameter contains `text`;
  /// `frame` when there is none.
  size_t find(const std::string& text, size_t frame) const;

 private:
  std::vector<std::string> forward_lines(size_t frame, const FrameOptions& options) const;
  std::vector<std::string> backward_lines(size_t frame, const FrameOptions& options) const;
  std::string heading(size_t frame) const;

  const Recording& recording_;
  std::vector<StepFrame> frames_;
  std::vector<int64_t> kept_bytes_;  // for backward, once the frame is over
  size_t loss_ = 0;
};

}  // namespace whisker
