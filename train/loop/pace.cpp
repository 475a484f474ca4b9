#include "train/loop/pace.h"

namespace whisker {

void Pace::restart() {
  *this = Pace(warm_up_);
}

void Pace::begin_epoch(double now) {
  if (epoch_.batches > 0) {
    all_before_.batches += epoch_.batches;
    all_before_.seconds += epoch_.seconds;
    epoch_before_ = epoch_;
  }
  epoch_ = {};
  begin_.reset();
  mark(now);
}

void Pace::mark(double now) {
  if (unsteady_ > 0) return;
  if (!begin_) {
    begin_ = now;
    first_ = batches_;
  }
  epoch_ = {.batches = batches_ - first_, .seconds = now - *begin_};
}

// The first time, algorithms are timed for the sizes of validation.
void Pace::add_between_epochs(double seconds) {
  between_ = ends_ <= 1 ? seconds : between_ + seconds;
  ++ends_;
}

std::optional<double> Pace::between_epochs() const {
  if (ends_ == 0) return std::nullopt;
  return between_ / static_cast<double>(ends_ == 1 ? 1 : ends_ - 1);
}

std::optional<double> Pace::batch_seconds() const {
  constexpr int64_t enough = 10;
  const Measured& found =
      epoch_.batches >= enough || epoch_before_.batches == 0 ? epoch_ : epoch_before_;
  if (found.batches == 0) return std::nullopt;
  return found.seconds / static_cast<double>(found.batches);
}

bool Pace::known_by(double seconds) const {
  constexpr int64_t enough = 20;
  return all_before_.batches + epoch_.batches >= enough &&
         all_before_.seconds + epoch_.seconds >= seconds;
}

}  // namespace whisker
