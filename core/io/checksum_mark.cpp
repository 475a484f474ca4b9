#include "core/io/checksum_mark.h"

#include "core/error.h"
#include "core/io/crc32.h"

#include <span>

namespace whisker {
namespace {

constexpr size_t most_before = 256, checksum_digits = 8;

std::string before_digits(std::string_view mark) {
  return fmt::format("{}, crc32 ", mark);
}

// Where the checksum stands; npos without the mark.
size_t checksum_at(std::string_view content, std::string_view mark) {
  const std::string before = before_digits(mark);
  const size_t at = content.substr(0, most_before).find(before);
  const bool whole =
      at != std::string_view::npos && content.size() >= at + before.size() + checksum_digits;
  return whole ? at + before.size() : std::string_view::npos;
}

std::string checksum_of(std::string_view text) {
  return fmt::format("{:08x}", crc32(std::as_bytes(std::span(text))));
}

}  // namespace

std::string checksum_mark(std::string_view mark) {
  return before_digits(mark) + std::string(checksum_digits, '0');
}

void set_checksum(std::string& content, std::string_view mark) {
  const size_t at = checksum_at(content, mark);
  if (at == std::string::npos) fail(ErrorKind::internal, "set_checksum: no mark '{}'.", mark);
  content.replace(at, checksum_digits,
                  checksum_of(std::string_view(content).substr(at + checksum_digits)));
}

bool checksum_matches(std::string_view content, std::string_view mark) {
  const size_t at = checksum_at(content, mark);
  return at != std::string_view::npos &&
         content.substr(at, checksum_digits) == checksum_of(content.substr(at + checksum_digits));
}

}  // namespace whisker
