#include "train/loop/pace.h"

namespace whisker {
namespace {

constexpr double enough = 20;  // batches

}  // namespace

void Pace::restart() {
  *this = Pace(warm_up_);
}

void Pace::begin_epoch(double now) {
  // Short epochs have a mean over several: an epoch of 20 batches counts alone.
  const double kept = epoch_.batches >= enough ? 0 : 0.9;
  if (epoch_.batches > 0) {
    before_ = {.batches = kept * before_.batches + epoch_.batches,
               .seconds = kept * before_.seconds + epoch_.seconds};
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
  if (!first_begin_) first_begin_ = now;
  last_mark_ = now;
  epoch_ = {.batches = static_cast<double>(batches_ - first_), .seconds = now - *begin_};
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
  const Measured& found = epoch_.batches >= enough / 2 || before_.batches == 0 ? epoch_ : before_;
  if (found.batches == 0) return std::nullopt;
  return found.seconds / found.batches;
}

bool Pace::known_after(double seconds) const {
  return first_begin_ && static_cast<double>(batches_) >= enough &&
         last_mark_ - *first_begin_ >= seconds;
}

}  // namespace whisker
