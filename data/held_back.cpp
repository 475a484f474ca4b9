#include "data/held_back.h"

#include "core/error.h"
#include "core/philox.h"
#include "data/file_walk.h"
#include "data/sampler.h"

#include <algorithm>
#include <cmath>

namespace whisker {

std::vector<bool> hold_back(std::span<const int64_t> labels, std::span<const std::string> classes,
                            double fraction, uint64_t seed) {
  if (!(fraction > 0 && fraction < 1)) {
    fail(ErrorKind::usage, "data.val_split: expected a number between 0 and 1, got {}.", fraction);
  }
  std::vector<std::vector<int64_t>> members(classes.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    members[static_cast<size_t>(labels[i])].push_back(static_cast<int64_t>(i));
  }
  std::vector<bool> held(labels.size());
  for (size_t label = 0; label < members.size(); ++label) {
    const auto count = std::ssize(members[label]);
    if (count < 2) {
      fail(ErrorKind::data,
           "data.val_split: class '{}' has {} examples, at least 2 are needed to share between "
           "train and val.",
           printable(classes[label]), count);
    }
    shuffle(members[label], seed, stream_of("val_split"), label);
    const auto wanted = std::llround(fraction * static_cast<double>(count));
    const auto taken = std::clamp<int64_t>(wanted, 1, count - 1);
    for (int64_t i = 0; i < taken; ++i) {
      held[static_cast<size_t>(members[label][static_cast<size_t>(i)])] = true;
    }
  }
  return held;
}

}  // namespace whisker
