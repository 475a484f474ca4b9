// An event file, which TensorBoard reads: TFRecords of Event messages. Their few fields are written
// here in Protocol Buffers' encoding (protobuf.dev/programming-guides/encoding); the numbers of the
// fields are those of tensorflow/core/util/event.proto and framework/summary.proto.
#pragma once

#include "core/io/run_files.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace whisker {

/// `data` between its length and checksums: u64 length, u32 masked CRC-32C of the length, data, u32
/// masked CRC-32C of the data, little-endian (tensorflow.org, TFRecord format details).
std::string tf_record(std::string_view data);

/// Number and sums of values, and how many lie at or below each limit and above the one before.
struct EventHistogram {
  double least = 0, most = 0, count = 0, sum = 0, sum_of_squares = 0;
  std::span<const double> limits, counts;  ///< equally many; limits rise
};

class EventFile {
 public:
  /// Makes a new file in `folder`, which is made where it is not; events of earlier files there at
  /// `first_step` or later count no more. Throws usage or disk.
  EventFile(const std::filesystem::path& folder, int64_t first_step);

  void scalar(std::string_view tag, int64_t step, double value);
  /// `encoded`: a PNG or JPEG file of (height, width) RGB pixels.
  void image(std::string_view tag, int64_t step, int height, int width, std::string_view encoded);
  void histogram(std::string_view tag, int64_t step, const EventHistogram& values);

 private:
  void append(int64_t step, int field, std::string_view message);
  void summary(std::string_view tag, int64_t step, std::string_view value);

  LogFile file_;
};

}  // namespace whisker
