// Text files as they come: UTF-8 with or without its mark, UTF-16 with one, any line ends.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// What the line ends of a text become.
enum class LineEnds {
  kept,
  lf_for_cr,  ///< a text without LF has its lines ended by CR alone
};

/// Turns the bytes of a text file into UTF-8 without byte order mark: UTF-16 by its mark. Returns
/// why that cannot be, "" if it can; whether UTF-8 is valid is not checked.
std::string decode_text(std::string& text, LineEnds line_ends);

/// What a file is that begins with `bytes` and is no text, and what to do: "a gzip file: unpack it
/// (gunzip)"; "" for all others.
std::string_view packed_format(std::string_view bytes);

/// The text of `path`, a file or pipe of at most 2 GiB. Throws data, naming it, for an unreadable
/// file and for what decode_text() refuses.
std::string read_text(const std::filesystem::path& path, LineEnds line_ends);

/// The text of a table, by lf_for_cr and data.rules. Throws data for a spreadsheet's first line,
/// sep=, too.
std::string read_table(const std::filesystem::path& path, int rules,
                       std::vector<std::string>& notes);

}  // namespace whisker
