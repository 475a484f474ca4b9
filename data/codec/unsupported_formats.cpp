#include "data/codec/unsupported_formats.h"

#include "core/io/file.h"
#include "data/codec/decode.h"
#include "data/codec/decode_formats.h"
#include "data/parallel.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace whisker {
namespace {

using std::string_view_literals::operator""sv;

struct Signature {
  size_t at;
  std::string_view bytes;
  UnsupportedFormat format;
};

constexpr std::array signatures = {
    Signature{0, "GIF8"sv, {"a GIF image", "GIF"}},
    Signature{0, "II*\0"sv, {"a TIFF image", "TIFF"}},
    Signature{0, "MM\0*"sv, {"a TIFF image", "TIFF"}},
    Signature{0, "II+\0"sv, {"a TIFF image", "TIFF"}},
    Signature{0, "MM\0+"sv, {"a TIFF image", "TIFF"}},
    Signature{4, "ftypavif"sv, {"an AVIF image", "AVIF"}},
    Signature{4, "ftypavis"sv, {"an AVIF image", "AVIF"}},
    Signature{4, "ftyphei"sv, {"a HEIC image", "HEIC"}},
    Signature{4, "ftyphev"sv, {"a HEIC image", "HEIC"}},
    Signature{4, "ftypmif1"sv, {"a HEIF image", "HEIF"}},
    Signature{4, "ftypmsf1"sv, {"a HEIF image", "HEIF"}},
    Signature{4, "ftyp"sv, {"an MP4 or QuickTime video", ""}},
    Signature{4, "jP  \r\n"sv, {"a JPEG 2000 image", "JPEG 2000"}},
    Signature{0, "\xFF\x4F\xFF\x51"sv, {"a JPEG 2000 image", "JPEG 2000"}},
    Signature{0, "\xFF\x0A"sv, {"a JPEG XL image", "JPEG XL"}},
    Signature{4, "JXL "sv, {"a JPEG XL image", "JPEG XL"}},
    Signature{0, "P7\n"sv, {"a PAM image", "PAM"}},
    Signature{0, "PF\n"sv, {"a PFM image", "PFM"}},
    Signature{0, "Pf\n"sv, {"a PFM image", "PFM"}},
    Signature{0, "8BPS"sv, {"a Photoshop document", ""}},
    Signature{0, "qoif"sv, {"a QOI image", "QOI"}},
    Signature{0, "DDS "sv, {"a DDS texture", ""}},
    Signature{0, "\0\0\1\0"sv, {"a Windows icon", ""}},
    Signature{0, "%PDF"sv, {"a PDF document", ""}},
    Signature{0, "PK\3\4"sv, {"a ZIP archive", ""}},
    Signature{0, "\x1F\x8B"sv, {"a gzip file", ""}},
    Signature{0,
              "version https://git-lfs"sv,
              {"a git-lfs pointer, not the image itself (run 'git lfs pull')", ""}},
    Signature{0, "<!DOCTYPE"sv, {"an HTML page (a failed download?)", ""}},
    Signature{0, "<!doctype"sv, {"an HTML page (a failed download?)", ""}},
    Signature{0, "<html"sv, {"an HTML page (a failed download?)", ""}},
    Signature{0, "<HTML"sv, {"an HTML page (a failed download?)", ""}},
    Signature{0, "<svg"sv, {"an SVG drawing", ""}},
    Signature{0, "<?xml"sv, {"an XML file", ""}},
};

constexpr size_t head_bytes = 256;  // a heat map's mark ends at 58; a PGM may begin with a comment

std::string_view text_of(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Empty for a file that cannot be read: opening it reports that.
std::string head_of(const std::filesystem::path& file) {
  const FileDescriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string head(head_bytes, '\0');
  const ssize_t count = fd ? ::read(fd.get(), head.data(), head.size()) : 0;
  head.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return head;
}

bool begins_as_image(std::string_view head, int rules) {
  if (rules > 1 && begins_as_pnm({reinterpret_cast<const uint8_t*>(head.data()), head.size()})) {
    return true;
  }
  return head.starts_with("\xff\xd8\xff") || head.starts_with("\x89PNG\r\n\x1a\n") ||
         (head.starts_with("BM") && head.size() >= 8) ||
         (head.starts_with("RIFF") &&
          head.substr(std::min<size_t>(head.size(), 8)).starts_with("WEBP"));
}

constexpr std::string_view png_mark = "\x89PNG\r\n\x1a\n";

uint32_t number_at(std::string_view head, size_t at, bool big_endian) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4 && at + i < head.size(); ++i) {
    const size_t shift = 8 * (big_endian ? 3 - i : i);
    value |= static_cast<uint32_t>(static_cast<uint8_t>(head[at + i])) << shift;
  }
  return value;
}

// Whether a PNG has an alpha channel, or a chunk of transparent colours before its pixels.
bool is_transparent_png(const std::filesystem::path& file, std::string_view head) {
  constexpr size_t color_type_at = 25, first_chunk_at = 8;
  if (head.size() > color_type_at && (head[color_type_at] & 4) != 0) return true;
  const FileDescriptor fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, 8> chunk{};
  constexpr int most_chunks = 1000;
  size_t at = first_chunk_at;
  for (int i = 0; fd && i < most_chunks; ++i) {
    const std::string_view begin(chunk.data(), chunk.size());
    if (::pread(fd.get(), chunk.data(), chunk.size(), static_cast<off_t>(at)) != 8) break;
    if (begin.substr(4) == "tRNS") return true;
    if (begin.substr(4) == "IDAT") break;
    at += 12 + size_t{number_at(begin, 0, true)};
  }
  return false;
}

void set_flags(const std::filesystem::path& path, const std::string& head, WalkedFile& file) {
  constexpr size_t depth_at = 24;
  const std::span<const uint8_t> bytes = bytes_of(head);
  if (head.starts_with(png_mark)) {
    file.deep = head.size() > depth_at && head[depth_at] == 16;
    file.alpha = is_transparent_png(path, head);
  } else if (head.starts_with("RIFF")) {
    constexpr size_t kind_at = 12, flags_at = 20, lossless_flags_at = 24;
    const std::string_view kind = std::string_view(head).substr(std::min(head.size(), kind_at), 4);
    const auto has = [&](size_t at, int bit) { return head.size() > at && (head[at] & bit) != 0; };
    file.alpha = kind == "VP8X" ? has(flags_at, 16) : kind == "VP8L" && has(lossless_flags_at, 16);
  } else if (head.starts_with("BM")) {
    const uint32_t header_bytes = number_at(head, 14, false),
                   compression = number_at(head, 30, false);
    const bool fields = (compression == 3 && header_bytes >= 56) || compression == 6;
    file.alpha = fields && number_at(head, 66, false) != 0;
  } else if (begins_as_pnm(bytes)) {
    file.deep = formats::is_deep_pnm(bytes);
  }
}

std::optional<SkippedFile> skip_reason(const std::string& head, const std::string& path,
                                       int rules) {
  const UnsupportedFormat format =
      detect_unsupported({reinterpret_cast<const uint8_t*>(head.data()), head.size()});
  if (!format.image.empty()) {
    return SkippedFile{path, fmt::format("{}; {}", format.name, supported_formats),
                       std::string(format.image)};
  }
  if (rules > 2 && head.starts_with("\xff\xd8") && head.find(heat_map_mark) != head.npos) {
    return SkippedFile{path, std::string(heat_map_reason)};
  }
  if (begins_as_image(head, rules) || has_image_name(path, rules)) return std::nullopt;
  return SkippedFile{path, "not an image"};
}

}  // namespace

bool begins_as_pnm(std::span<const uint8_t> bytes) {
  const std::string_view text = text_of(bytes);
  if (text.size() < 3 || text[0] != 'P' || text[1] < '1' || text[1] > '6') return false;
  const size_t next = text.find_first_not_of(" \t\n\v\f\r", 2);
  if (next == 2) return text[2] == '#';
  return next == std::string_view::npos || text[next] == '#' ||
         (text[next] >= '0' && text[next] <= '9');
}

UnsupportedFormat detect_unsupported(std::span<const uint8_t> bytes) {
  const std::string_view text = text_of(bytes);
  const auto has = [&](size_t at, std::string_view expected) {
    return text.size() >= at && text.substr(at).starts_with(expected);
  };
  constexpr size_t flags_at = 20;
  constexpr uint8_t animated = 2;
  if (has(0, "RIFF") && has(8, "WEBPVP8X") && bytes.size() > flags_at &&
      (bytes[flags_at] & animated) != 0) {
    return {"an animated WebP image", "animated WebP"};
  }
  for (const Signature& signature : signatures) {
    if (has(signature.at, signature.bytes)) return signature.format;
  }
  return {};
}

std::vector<WalkedFile> take_images(const std::filesystem::path& root,
                                    std::span<const WalkedFile> files,
                                    std::vector<SkippedFile>& skipped, int rules) {
  constexpr int64_t few = 256;  // not worth a thread
  std::vector<std::optional<SkippedFile>> reasons(files.size());
  std::vector<WalkedFile> flagged(files.begin(), files.end());
  const auto count = static_cast<int64_t>(files.size());
  parallel_for(count, count > few ? -1 : 0, [&](int64_t i) {
    const std::string& path = files[static_cast<size_t>(i)].path;
    const std::string head = head_of(root / path);
    reasons[static_cast<size_t>(i)] = skip_reason(head, path, rules);
    if (!reasons[static_cast<size_t>(i)])
      set_flags(root / path, head, flagged[static_cast<size_t>(i)]);
  });
  std::vector<WalkedFile> images;
  for (size_t i = 0; i < files.size(); ++i) {
    if (reasons[i]) {
      skipped.push_back(std::move(*reasons[i]));
    } else {
      images.push_back(std::move(flagged[i]));
    }
  }
  return images;
}

void set_sample_flags(const std::filesystem::path& path, WalkedFile& file) {
  set_flags(path, head_of(path), file);
}

int64_t count_unsupported_formats(std::span<const SkippedFile> files) {
  return std::ranges::count_if(files, [](const auto& file) { return !file.format.empty(); });
}

std::string unsupported_formats(std::span<const SkippedFile> files, bool others) {
  std::map<std::string, int64_t> counts;
  int64_t rest = 0;
  for (const SkippedFile& file : files) {
    file.format.empty() ? ++rest : ++counts[file.format];
  }
  std::string text;
  for (const auto& [format, count] : counts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, format);
  }
  if (!others || rest == 0) return text;
  return text +
         fmt::format("{}{} other file{}", text.empty() ? "" : " and ", rest, rest == 1 ? "" : "s");
}

}  // namespace whisker
