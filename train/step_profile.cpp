#include "train/step_profile.h"

#include "core/io/atomic_file.h"

namespace whisker {

void StepProfile::before_batch(int64_t left) {
  if (batches_ == 0 || trace_ || traced_ > 0) return;
  if (seen_ < step_.warm_up_batches() && left > batches_) return;
  trace_ = std::make_unique<StepTrace>(device_);
  step_.set_trace(trace_.get());
}

bool StepProfile::after_batch() {
  ++seen_;
  return trace_ && ++traced_ == batches_;
}

std::string StepProfile::write(const std::filesystem::path& file) {
  step_.set_trace(nullptr);
  write_file_atomically(file, trace_->json());
  trace_.reset();
  return fmt::format("{} steps traced: {} (open it in ui.perfetto.dev)", traced_, file.string());
}

}  // namespace whisker
