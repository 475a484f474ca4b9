// Where the wall time of a run goes.
#pragma once

#include <array>
#include <chrono>
#include <string_view>

namespace whisker {

enum class Stage : uint8_t { data_wait, step, validation, checkpoint, logging };
inline constexpr std::array<std::string_view, 5> stage_names = {"data wait", "step", "validation",
                                                                "checkpoint", "logging"};

struct StageTimes {
  std::array<double, 5> seconds{};
  double& operator[](Stage stage) { return seconds[static_cast<size_t>(stage)]; }
  double operator[](Stage stage) const { return seconds[static_cast<size_t>(stage)]; }
  double total() const {
    double sum = 0;
    for (const double s : seconds) sum += s;
    return sum;
  }
};

/// Adds the time it lives to one stage.
class StageTimer {
 public:
  StageTimer(StageTimes& times, Stage stage) : times_(times), stage_(stage) {}
  ~StageTimer() {
    times_[stage_] +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;

 private:
  StageTimes& times_;
  Stage stage_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace whisker
