// The arithmetic of mixup and cutmix.
#include "data/transforms/mix.h"

#include "core/error.h"

#include <algorithm>
#include <vector>

namespace whisker {
namespace {

/// Each row becomes own * row + (1 - own) * the row before, from the last to the second; the first
/// is mixed with the last as it was.
template <class Blend>
void blend_with_previous(std::span<float> images, size_t count, Blend blend) {
  const size_t rows = images.size() / count;
  const auto row = [&](size_t i) { return images.subspan(i * count, count); };
  const auto end = row(rows - 1);
  const std::vector<float> last(end.begin(), end.end());
  for (size_t i = rows - 1; i > 0; --i) blend(row(i), row(i - 1));
  blend(row(0), std::span<const float>(last));
}

}  // namespace

void mix_labels(const BatchMix& mix, std::span<const int64_t> labels,
                std::span<float> soft_labels) {
  if (labels.empty()) return;
  const size_t classes = soft_labels.size() / labels.size();
  const auto own = static_cast<float>(mix.lambda);
  for (const int64_t label : labels) {
    if (label < 0 || label >= static_cast<int64_t>(classes)) {
      fail(ErrorKind::data, "mix: expected labels from 0 to {}, got {}.",
           static_cast<int64_t>(classes) - 1, label);
    }
  }
  std::fill(soft_labels.begin(), soft_labels.end(), 0.0f);
  for (size_t i = 0; i < labels.size(); ++i) {
    const int64_t partner = labels[i > 0 ? i - 1 : labels.size() - 1];
    const std::span<float> soft = soft_labels.subspan(i * classes);
    soft[static_cast<size_t>(labels[i])] += own;
    soft[static_cast<size_t>(partner)] += 1 - own;
  }
}

void mix_images(const BatchMix& mix, const MixRows& batch) {
  if (batch.rows == 0) return;
  const size_t count = batch.images.size() / static_cast<size_t>(batch.rows);
  const auto own = static_cast<float>(mix.lambda);
  if (mix.kind == BatchMix::Kind::mixup) {
    blend_with_previous(batch.images, count, [&](std::span<float> x, std::span<const float> y) {
      for (size_t k = 0; k < x.size(); ++k) x[k] = own * x[k] + (1 - own) * y[k];
    });
  } else if (mix.kind == BatchMix::Kind::cutmix) {
    const auto channels = static_cast<int64_t>(count) / (batch.height * batch.width);
    blend_with_previous(batch.images, count, [&](std::span<float> x, std::span<const float> y) {
      for (int64_t line = mix.box.top; line < mix.box.top + mix.box.height; ++line) {
        const auto begin = (line * batch.width + mix.box.left) * channels;
        std::copy_n(y.begin() + begin, mix.box.width * channels, x.begin() + begin);
      }
    });
  }
}

}  // namespace whisker
