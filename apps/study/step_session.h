// `whisker study step`: moves through the frames of a recorded step, by a script or by keys.
#pragma once

#include "core/trace/step_frames.h"

#include <functional>
#include <string>

namespace whisker {

class StepSession {
 public:
  StepSession(const StepFrames& frames, FrameOptions options)
      : frames_(frames), options_(options) {}

  /// The frame that is shown.
  std::string text() const { return frames_.text(frame_, options_); }
  size_t frame() const { return frame_; }
  /// Follows one word: n next, p previous, f to the end, b to the loss, /TEXT the next frame with
  /// that text, v all values or few. Returns what there is to say besides the frame; throws usage
  /// for any other word.
  std::string follow(const std::string& word);

  static constexpr const char* keys =
      "n next, p previous, f to the end, b to the loss, /TEXT search, v all values, q quit";

 private:
  const StepFrames& frames_;
  FrameOptions options_;
  size_t frame_ = 0;
};

/// The words of a script: separated by blanks, up to q. Throws usage for an unknown one.
std::vector<std::string> script_words(const std::string& script);

}  // namespace whisker
