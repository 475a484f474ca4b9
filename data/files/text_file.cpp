#include "data/files/text_file.h"

#include "core/error.h"
#include "core/io/file.h"
#include "core/io/text.h"
#include "data/files/check_reading.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace whisker {
namespace {

constexpr size_t most_bytes = size_t{1} << 31;

void append_utf8(std::string& text, uint32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
    return;
  }
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  const uint32_t lead = more == 1 ? 0xc0u : more == 2 ? 0xe0u : 0xf0u;
  text += static_cast<char>(lead | c >> (6 * more));
  for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80u | (c >> (6 * i) & 0x3fu));
}

// "" or why `text`, which begins with the byte order mark, is no UTF-16 (RFC 2781, section 2.2).
std::string from_utf16(std::string& text) {
  const bool little = text.starts_with("\xff\xfe");
  const auto unit = [&](size_t at) {
    const auto first = static_cast<uint8_t>(text[at]), second = static_cast<uint8_t>(text[at + 1]);
    return static_cast<uint32_t>(little ? first | second << 8 : first << 8 | second);
  };
  std::string utf8;
  utf8.reserve(text.size());
  for (size_t at = 2; at < text.size(); at += 2) {
    if (at + 1 == text.size()) return "begins as UTF-16 and has an odd number of bytes";
    uint32_t c = unit(at);
    if (c >= 0xd800 && c < 0xe000) {
      const bool pair = c < 0xdc00 && at + 3 < text.size() && unit(at + 2) >> 10 == 0xdc00 >> 10;
      if (!pair) return fmt::format("begins as UTF-16, which byte {} is not", at + 1);
      c = 0x10000 + ((c & 0x3ff) << 10 | (unit(at + 2) & 0x3ff));
      at += 2;
    }
    append_utf8(utf8, c);
  }
  text = std::move(utf8);
  return "";
}

}  // namespace

std::string_view packed_format(std::string_view bytes) {
  struct Format {
    std::string_view begin, name;
  };
  constexpr std::array formats = {
      Format{"\x1f\x8b", "a gzip file (.gz): unpack it with gunzip"},
      Format{"BZh91AY&SY", "a bzip2 file (.bz2): unpack it with bunzip2"},
      Format{"\xfd"
             "7zXZ",
             "an xz file (.xz): unpack it with unxz"},
      Format{"\x28\xb5\x2f\xfd", "a Zstandard file (.zst): unpack it with unzstd"},
      Format{"PAR1\x15", "a Parquet file: write it as CSV"},
      Format{"\xd0\xcf\x11\xe0", "an old Excel workbook (.xls): save its sheet as CSV in UTF-8"},
      Format{"PK\3\4", "a ZIP archive: unpack it with unzip"}};
  const auto found = std::ranges::find_if(
      formats, [&](const Format& format) { return bytes.starts_with(format.begin); });
  if (found == formats.end()) return "";
  const bool office = found == formats.end() - 1 && bytes.find("[Content_Types].xml") != bytes.npos;
  return office ? "an Excel workbook (.xlsx): save its sheet as CSV in UTF-8" : found->name;
}

std::string decode_text(std::string& text, LineEnds line_ends) {
  using namespace std::string_view_literals;
  if (const std::string_view format = packed_format(text); !format.empty()) {
    return fmt::format("is {}", format);
  }
  if (text.starts_with("\xff\xfe\0\0"sv) || text.starts_with("\0\0\xfe\xff"sv)) {
    return "is UTF-32: save it as UTF-8";
  }
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    if (std::string fault = from_utf16(text); !fault.empty()) return fault;
  } else if (text.starts_with("\xef\xbb\xbf")) {
    text.erase(0, 3);
  }
  const std::string_view begin = std::string_view(text).substr(0, 1024);
  if (std::ranges::count(begin, '\0') * 4 > std::ssize(begin)) {
    return "holds NUL bytes, as UTF-16 without a byte order mark does: save it as UTF-8";
  }
  if (line_ends == LineEnds::lf_for_cr && text.find('\n') == std::string::npos) {
    std::ranges::replace(text, '\r', '\n');
  }
  return "";
}

std::string read_text(const std::filesystem::path& path, LineEnds line_ends) {
  std::string text = read_file(path, most_bytes, ErrorKind::data, Source::stream);
  if (const std::string fault = decode_text(text, line_ends); !fault.empty()) {
    fail(ErrorKind::data, "{}: the file {}.", printable(path.string()), fault);
  }
  return text;
}

std::string read_table(const std::filesystem::path& path, int rules,
                       std::vector<std::string>& notes) {
  std::string text = read_text(path, LineEnds::lf_for_cr);
  constexpr size_t separator_line = 5;
  check_reading(rules, notes, [&] {
    if (!text.starts_with("sep=") || text.find_first_of("\r\n") != separator_line) return;
    fail(ErrorKind::data, "{}: the file begins with a line for spreadsheets ('sep='): remove it.",
         printable(path.string()));
  });
  return text;
}

}  // namespace whisker
