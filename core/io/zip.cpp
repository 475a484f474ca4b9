// The central directory at the archive's end says where each entry stands.
#include "core/io/zip.h"

#include "core/error.h"
#include "core/io/text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace whisker {
namespace {

constexpr uint32_t local_signature = 0x04034b50, central_signature = 0x02014b50;
constexpr uint32_t end_signature = 0x06054b50, end64_signature = 0x06064b50;
constexpr uint32_t locator_signature = 0x07064b50;
constexpr uint64_t end_bytes = 22, end64_bytes = 56, locator_bytes = 20, most_comment = 65535;
constexpr uint32_t in_zip64 = 0xffff'ffff;
constexpr uint16_t encrypted = 1;

class Archive {
 public:
  Archive(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  [[noreturn]] void damaged(std::string_view what) const {
    fail(ErrorKind::checkpoint, "{}: a damaged zip archive: {}. Download or copy it again.", file_,
         what);
  }
  std::span<const std::byte> part(uint64_t begin, uint64_t count, std::string_view what) const {
    if (begin > bytes_.size() || count > bytes_.size() - begin) {
      damaged(fmt::format("{} lies beyond the file's end", what));
    }
    return bytes_.subspan(begin, count);
  }
  template <class T>
  T number(uint64_t at, std::string_view what) const {
    T value;
    std::memcpy(&value, part(at, sizeof(T), what).data(), sizeof(T));
    return value;
  }
  std::string text(uint64_t at, uint64_t count, std::string_view what) const {
    const auto bytes = part(at, count, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  uint64_t size() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  const std::string& file_;
};

// Of the record at the end, behind which only the archive's comment may stand.
uint64_t find_end(const Archive& archive) {
  if (archive.size() >= end_bytes) {
    const uint64_t last = archive.size() - end_bytes;
    for (uint64_t comment = 0; comment <= std::min(last, most_comment); ++comment) {
      const uint64_t at = last - comment;
      if (archive.number<uint32_t>(at, "the end") == end_signature &&
          archive.number<uint16_t>(at + 20, "the end") == comment) {
        return at;
      }
    }
  }
  archive.damaged("it has no end, so it is cut short");
}

struct Directory {
  uint64_t begin = 0, count = 0;
};

Directory find_directory(const Archive& archive) {
  const uint64_t end = find_end(archive);
  constexpr const char* what = "the zip64 record";
  const bool may_be_64 = end >= locator_bytes;
  if (may_be_64 && archive.number<uint32_t>(end - locator_bytes, what) == locator_signature) {
    const auto at = archive.number<uint64_t>(end - locator_bytes + 8, what);
    archive.part(at, end64_bytes, what);
    if (archive.number<uint32_t>(at, what) != end64_signature) {
      archive.damaged("its zip64 record is none");
    }
    return {.begin = archive.number<uint64_t>(at + 48, what),
            .count = archive.number<uint64_t>(at + 32, what)};
  }
  return {.begin = archive.number<uint32_t>(end + 16, what),
          .count = archive.number<uint16_t>(end + 10, what)};
}

struct Entry {
  std::string name;
  uint64_t local = 0, bytes = 0, next = 0;
};

// The 64-bit numbers of an extra field stand for those that are all ones, in this order.
void read_zip64(const Archive& archive, uint64_t extra, uint64_t extra_bytes, uint64_t& unpacked,
                uint64_t& packed, uint64_t& local) {
  constexpr uint16_t zip64_field = 1;
  constexpr const char* what = "an extra field";
  const uint64_t end = extra + extra_bytes;
  while (end - extra >= 4) {
    const auto id = archive.number<uint16_t>(extra, what);
    const uint64_t field_bytes = archive.number<uint16_t>(extra + 2, what);
    extra += 4;
    if (field_bytes > end - extra) return;  // padding
    if (id == zip64_field) {
      uint64_t at = extra;
      for (uint64_t* value : {&unpacked, &packed, &local}) {
        if (*value != in_zip64) continue;
        if (at + 8 > extra + field_bytes) archive.damaged("a zip64 field is too short");
        *value = archive.number<uint64_t>(at, what);
        at += 8;
      }
      return;
    }
    extra += field_bytes;
  }
}

Entry read_entry(const Archive& archive, uint64_t at, const std::string& file) {
  constexpr const char* what = "its directory";
  constexpr uint64_t header_bytes = 46;
  archive.part(at, header_bytes, what);
  if (archive.number<uint32_t>(at, what) != central_signature) {
    archive.damaged("its directory has another number of entries than it says");
  }
  const uint64_t name_bytes = archive.number<uint16_t>(at + 28, what);
  const uint64_t extra_bytes = archive.number<uint16_t>(at + 30, what);
  const uint64_t comment_bytes = archive.number<uint16_t>(at + 32, what);
  Entry entry{.name = archive.text(at + header_bytes, name_bytes, what),
              .next = at + header_bytes + name_bytes + extra_bytes + comment_bytes};
  archive.part(at, entry.next - at, what);
  uint64_t packed = archive.number<uint32_t>(at + 20, what);
  entry.bytes = archive.number<uint32_t>(at + 24, what);
  entry.local = archive.number<uint32_t>(at + 42, what);
  read_zip64(archive, at + header_bytes + name_bytes, extra_bytes, entry.bytes, packed,
             entry.local);
  const bool stored = archive.number<uint16_t>(at + 10, what) == 0 && packed == entry.bytes;
  if (!stored || (archive.number<uint16_t>(at + 8, what) & encrypted) != 0) {
    fail(ErrorKind::checkpoint,
         "{}: expected a zip archive as torch.save writes, got a compressed or encrypted entry {}. "
         "Unpack the archive and use the file of weights in it.",
         file, excerpt(entry.name));
  }
  return entry;
}

std::span<const std::byte> content_of(const Archive& archive, const Entry& entry) {
  constexpr uint64_t header_bytes = 30;
  constexpr const char* what = "an entry";
  archive.part(entry.local, header_bytes, what);
  if (archive.number<uint32_t>(entry.local, what) != local_signature) {
    archive.damaged(fmt::format("entry {} is not where it should be", excerpt(entry.name)));
  }
  const uint64_t names = archive.number<uint16_t>(entry.local + 26, what);
  const uint64_t extras = archive.number<uint16_t>(entry.local + 28, what);
  return archive.part(entry.local + header_bytes + names + extras, entry.bytes, what);
}

}  // namespace

std::map<std::string, std::span<const std::byte>> zip_entries(std::span<const std::byte> archive,
                                                              const std::string& file) {
  const Archive reader(archive, file);
  const Directory directory = find_directory(reader);
  std::map<std::string, std::span<const std::byte>> entries;
  uint64_t at = directory.begin;
  for (uint64_t i = 0; i < directory.count; ++i) {
    const Entry entry = read_entry(reader, at, file);
    if (!entries.emplace(entry.name, content_of(reader, entry)).second) {
      reader.damaged(fmt::format("two entries are named {}", excerpt(entry.name)));
    }
    at = entry.next;
  }
  return entries;
}

}  // namespace whisker
