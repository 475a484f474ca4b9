// Short forms for tests of recorded steps.
#pragma once

#include "core/autograd/autograd.h"
#include "core/trace/recording.h"
#include "core/trace/step_recorder.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace whisker {

/// The step that `loss` and its backward are, with values.
template <class Loss>
Recording step_of(Loss loss) {
  StepRecorder recorder({.values = true});
  backward(loss());
  return recorder.recording();
}

/// The first entry of this name.
template <class Recorded>
auto& entry_named(Recorded& recording, std::string_view name) {
  const auto found = std::ranges::find(recording.entries, name, &TapeEntry::name);
  if (found == recording.entries.end()) throw std::out_of_range(std::string(name));
  return *found;
}

}  // namespace whisker
