#include "core/communicator/rank_courses.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace whisker {
namespace {

constexpr double start_factor = 15;  // of the limit, while a device or NCCL starts
// Beyond the limit: a process that is stopped is known by its silence before.
constexpr double grace_s = 2;

}  // namespace

void RankCourses::restart(Deadline now) {
  for (Course& course : courses_) course.moved = now;
}

void RankCourses::follow(int rank, const WorkProgress& progress, bool on_device, Deadline now) {
  Course& course = courses_[static_cast<size_t>(rank)];
  const bool moved =
      progress.count != course.progress.count || progress.waiting == Waiting::outside;
  course = {.progress = progress, .on_device = on_device, .moved = moved ? now : course.moved};
}

bool RankCourses::stands(const Course& course, Deadline now) const {
  const bool starts = course.progress.waiting == Waiting::start;
  return std::chrono::duration<double>(now - course.moved).count() >
         silence_s_ * (starts ? start_factor : 1) + grace_s;
}

RankCourses::Hang RankCourses::hang_of(const Course& course, const char* what) const {
  return {
      .rank = static_cast<int>(&course - courses_.data()),
      .reason = fmt::format("{} for {:.0f} s, the limit of WHISKER_SILENCE_S", what, silence_s_)};
}

std::optional<RankCourses::Hang> RankCourses::hang(Deadline now) const {
  for (const Course& course : courses_) {
    const bool alone = course.progress.waiting != Waiting::ranks && !course.on_device;
    if (alone && stands(course, now)) return hang_of(course, "hangs: it has made no progress");
  }
  if (!std::ranges::all_of(courses_, [&](const Course& course) { return stands(course, now); })) {
    return std::nullopt;
  }
  const auto first = std::ranges::min_element(courses_, {}, [](const Course& course) {
    return std::pair(course.progress.waiting == Waiting::ranks, course.moved);
  });
  return hang_of(*first, "stopped first: no rank has made progress");
}

}  // namespace whisker
