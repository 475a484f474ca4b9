// Small text helpers that errors share: the nearest known name, quoted excerpts of foreign text,
// and readable file sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace whisker {

/// The candidate with the smallest edit distance to `name`, or "" when none is close enough to be
/// a likely slip (distance over a third of the longer name).
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

/// True when `pattern` describes the whole of `name`: `*` is any run of characters, everything else
/// itself. What patterns of parameter names mean everywhere (freeze, skip, optimizer groups).
bool matches_pattern(std::string_view pattern, std::string_view name);

/// Which line breaks printable() keeps.
enum class KeptLines : uint8_t {
  none,
  indented,  ///< those before an indented line, a blank one or the end: a message's own
  all,       ///< and tabs: of results, whose parts have been escaped
};

/// Escapes foreign text for terminals, logs and errors: control characters (is_control()) as \xNN
/// or \uNNNN, bytes that are not UTF-8 as \xNN. Escaping twice changes nothing.
std::string printable(std::string_view text, KeptLines kept = KeptLines::none);

/// `text` with every line indented by two spaces.
std::string indented(std::string_view text);

/// `text` printable and in single quotes for a message, cut after 60 code points.
std::string excerpt(std::string_view text);

/// "11,689,512".
std::string grouped(int64_t number);

/// "3.4 MiB": bytes in binary units with at most one decimal.
std::string human_bytes(uint64_t bytes);

/// Bytes of "2GiB", "1.5 GB", "512MiB", "4096" or "4096 B"; units as in human_bytes, or with powers
/// of 1000. Nothing when it is none of these or does not fit into 63 bits.
std::optional<int64_t> parse_bytes(std::string_view text);

}  // namespace whisker
