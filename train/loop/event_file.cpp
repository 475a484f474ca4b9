#include "train/loop/event_file.h"

#include "core/error.h"
#include "core/io/crc32.h"

#include <bit>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <system_error>

namespace whisker {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little,
              "numbers are written as they lie in memory");

template <class T>
std::string bytes_of(T number) {
  return std::string(reinterpret_cast<const char*>(&number), sizeof number);
}

std::string masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return bytes_of((crc >> 15 | crc << 17) + 0xa282ead8u);
}

// --- Protocol Buffers ----------------------------------------------------------------------------

std::string varint(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>((number & 0x7f) | 0x80);
  return bytes + static_cast<char>(number);
}

enum class WireType : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

std::string key_of(int field, WireType type) {
  return varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type));
}

std::string field_of(int field, std::integral auto number) {
  return key_of(field, WireType::varint) + varint(static_cast<uint64_t>(number));
}
std::string field_of(int field, double number) {
  return key_of(field, WireType::fixed64) + bytes_of(number);
}
std::string field_of(int field, float number) {
  return key_of(field, WireType::fixed32) + bytes_of(number);
}
std::string field_of(int field, std::string_view bytes) {
  return key_of(field, WireType::bytes) + varint(bytes.size()) + std::string(bytes);
}
std::string packed_field(int field, std::span<const double> numbers) {
  return field_of(
      field, std::string_view(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()));
}

// Field numbers of Event, of Summary.Value, and of what it holds.
namespace event_field {
constexpr int wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7;
}
namespace value_field {
constexpr int tag = 1, simple_value = 2, image = 4, histogram = 5;
}

double wall_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// Names sort by time, in which TensorBoard reads the files of a run.
fs::path new_event_file(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_disk("make the folder", folder, error.value());
  const auto seconds = static_cast<int64_t>(wall_seconds());
  for (int number = 0;; ++number) {
    fs::path path =
        folder / fmt::format("events.out.tfevents.{:010}.{:03}.whisker", seconds, number);
    if (!fs::exists(fs::symlink_status(path, error))) return path;
  }
}

}  // namespace

std::string tf_record(std::string_view data) {
  const std::string length = bytes_of(static_cast<uint64_t>(data.size()));
  return length + masked_crc(length) + std::string(data) + masked_crc(data);
}

EventFile::EventFile(const fs::path& folder, int64_t first_step) : file_(new_event_file(folder)) {
  append(0, event_field::file_version, "brain.Event:2");
  constexpr int status = 1, start = 1;
  append(first_step, event_field::session_log, field_of(status, start));
}

void EventFile::append(int64_t step, int field, std::string_view message) {
  file_.append(tf_record(field_of(event_field::wall_time, wall_seconds()) +
                         field_of(event_field::step, step) + field_of(field, message)));
}

void EventFile::summary(std::string_view tag, int64_t step, std::string_view value) {
  constexpr int values = 1;
  const std::string one = field_of(value_field::tag, tag) + std::string(value);
  append(step, event_field::summary, field_of(values, std::string_view(one)));
}

void EventFile::scalar(std::string_view tag, int64_t step, double value) {
  summary(tag, step, field_of(value_field::simple_value, static_cast<float>(value)));
}

void EventFile::image(std::string_view tag, int64_t step, int height, int width,
                      std::string_view encoded) {
  constexpr int rgb = 3;
  const std::string message =
      field_of(1, height) + field_of(2, width) + field_of(3, rgb) + field_of(4, encoded);
  summary(tag, step, field_of(value_field::image, std::string_view(message)));
}

void EventFile::histogram(std::string_view tag, int64_t step, const EventHistogram& values) {
  const std::string message = field_of(1, values.least) + field_of(2, values.most) +
                              field_of(3, values.count) + field_of(4, values.sum) +
                              field_of(5, values.sum_of_squares) + packed_field(6, values.limits) +
                              packed_field(7, values.counts);
  summary(tag, step, field_of(value_field::histogram, std::string_view(message)));
}

}  // namespace whisker
