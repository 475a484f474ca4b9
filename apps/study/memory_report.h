// A step's memory as text, JSON and an image.
#pragma once

#include "apps/study/memory_recorder.h"
#include "core/io/safetensors.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace whisker {

/// What recomputing a block of layers in backward would save, estimated from what it keeps.
struct BlockMemory {
  std::string block;
  int64_t keeps = 0, saves = 0;  ///< bytes; all but its input is computed again
};

struct StudyStep;

struct MemoryReport {
  std::string title;
  std::vector<MemorySample> samples;  ///< one at least
  int64_t first_peak = 0;             ///< of the first step, which times algorithms
  int64_t predicted = 0;              ///< bytes of the highest of all steps; 0: not predicted

  /// The report of the second step of two: the first pays for what is made once.
  static MemoryReport of(const StudyStep& step);
  /// Under which a recording's metadata hold json().
  static constexpr const char* metadata_key = "memory";
  /// The report in a recording; those of older versions have none. Throws checkpoint, naming the
  /// file, for one that is no recording or holds a number that does not fit.
  static std::optional<MemoryReport> find(const SafetensorsFile& file);

  size_t peak() const;  ///< the sample with the highest peak, the first of equal ones
  int64_t peak_bytes() const { return samples[peak()].peak; }
  /// Kept for backward while the sample ran.
  int64_t kept_during(size_t sample) const;
  /// Parts of the peak, by name, which add up to it: the allocator's categories, with what is kept
  /// for backward apart from other activations.
  std::vector<std::pair<std::string, int64_t>> parts() const;
  /// Samples that keep something at the peak, the largest first.
  std::vector<size_t> owners() const;
  /// The largest saving first; blocks that would save nothing are left out.
  std::vector<BlockMemory> blocks() const;

  /// Lines of at most `width` columns (0: no limit), as far as the tables can.
  std::string text(size_t width) const;
  std::string json() const;
  std::string svg() const;
};

/// Whether MemoryReport::svg() made the content, and nobody changed it.
bool is_memory_svg(std::string_view content);

}  // namespace whisker
