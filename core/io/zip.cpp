// The central directory at the archive's end says where each entry stands.
#include "core/io/zip.h"

#include "core/error.h"
#include "core/io/crc32.h"
#include "core/io/text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace whisker {
namespace {

constexpr uint32_t local_signature = 0x04034b50, central_signature = 0x02014b50;
constexpr uint32_t end_signature = 0x06054b50, end64_signature = 0x06064b50;
constexpr uint32_t locator_signature = 0x07064b50;
constexpr uint64_t end_bytes = 22, end64_bytes = 56, locator_bytes = 20, most_comment = 65535;
constexpr uint32_t in_zip64 = 0xffff'ffff;
constexpr uint16_t encrypted = 1;

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

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
  std::string_view text(uint64_t at, uint64_t count, std::string_view what) const {
    const auto bytes = part(at, count, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  uint64_t size() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  const std::string& file_;
};

// The position of the record at the end, behind which only the archive's comment may stand.
uint64_t find_end(const Reader& archive) {
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

Directory find_directory(const Reader& archive) {
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

// The 64-bit numbers of an extra field stand for those that are all ones, in this order.
void read_zip64(const Reader& archive, uint64_t extra, uint64_t extra_bytes, uint64_t& unpacked,
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

// A record of the directory.
struct Record {
  std::string_view name;
  uint64_t local = 0, bytes = 0, next = 0;
  uint32_t crc = 0;
  bool stored = false;  // neither compressed nor encrypted
};

Record read_record(const Reader& archive, uint64_t at) {
  constexpr const char* what = "its directory";
  constexpr uint64_t header_bytes = 46;
  archive.part(at, header_bytes, what);
  if (archive.number<uint32_t>(at, what) != central_signature) {
    archive.damaged("its directory has another number of entries than it says");
  }
  const uint64_t name_bytes = archive.number<uint16_t>(at + 28, what);
  const uint64_t extra_bytes = archive.number<uint16_t>(at + 30, what);
  const uint64_t comment_bytes = archive.number<uint16_t>(at + 32, what);
  Record record{.name = archive.text(at + header_bytes, name_bytes, what),
                .next = at + header_bytes + name_bytes + extra_bytes + comment_bytes,
                .crc = archive.number<uint32_t>(at + 16, what)};
  archive.part(at, record.next - at, what);
  uint64_t packed = archive.number<uint32_t>(at + 20, what);
  record.bytes = archive.number<uint32_t>(at + 24, what);
  record.local = archive.number<uint32_t>(at + 42, what);
  read_zip64(archive, at + header_bytes + name_bytes, extra_bytes, record.bytes, packed,
             record.local);
  record.stored = archive.number<uint16_t>(at + 10, what) == 0 && packed == record.bytes &&
                  (archive.number<uint16_t>(at + 8, what) & encrypted) == 0;
  return record;
}

std::span<const std::byte> content_of(const Reader& archive, const Record& record) {
  constexpr uint64_t header_bytes = 30;
  constexpr const char* what = "an entry";
  archive.part(record.local, header_bytes, what);
  if (archive.number<uint32_t>(record.local, what) != local_signature) {
    archive.damaged(fmt::format("entry {} is not where it should be", excerpt(record.name)));
  }
  const uint64_t names = archive.number<uint16_t>(record.local + 26, what);
  const uint64_t extras = archive.number<uint16_t>(record.local + 28, what);
  return archive.part(record.local + header_bytes + names + extras, record.bytes, what);
}

}  // namespace

ZipArchive::ZipArchive(std::span<const std::byte> bytes, std::string file)
    : bytes_(bytes), file_(std::move(file)) {
  const Reader archive(bytes_, file_);
  const Directory directory = find_directory(archive);
  constexpr uint64_t least_bytes = 46;  // of a record
  if (directory.count > bytes.size() / least_bytes) {
    archive.damaged("its directory has more entries than the file has bytes for");
  }
  entries_.reserve(directory.count);
  uint64_t at = directory.begin;
  for (uint64_t i = 0; i < directory.count; ++i) {
    const Record record = read_record(archive, at);
    entries_.push_back({.name = record.name, .at = at});
    at = record.next;
  }
  std::ranges::sort(entries_, {}, &Entry::name);
  const auto twin = std::ranges::adjacent_find(entries_, {}, &Entry::name);
  if (twin != entries_.end()) {
    archive.damaged(fmt::format("two entries are named {}", excerpt(twin->name)));
  }
}

const ZipArchive::Entry* ZipArchive::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(entries_, name, {}, &Entry::name);
  return found != entries_.end() && found->name == name ? &*found : nullptr;
}

std::optional<std::span<const std::byte>> ZipArchive::read(std::string_view name) const {
  const Entry* entry = find(name);
  if (!entry) return std::nullopt;
  const Reader archive(bytes_, file_);
  const Record record = read_record(archive, entry->at);
  if (!record.stored) {
    fail(ErrorKind::checkpoint,
         "{}: expected a zip archive as torch.save writes, got a compressed or encrypted entry {}. "
         "Unpack the archive and use the file of weights in it.",
         file_, excerpt(name));
  }
  const std::span<const std::byte> content = content_of(archive, record);
  if (const uint32_t crc = crc32(content); crc != record.crc) {
    fail(ErrorKind::checkpoint,
         "{}: a damaged zip archive: entry {} has the CRC-32 {:08x}, its directory says {:08x}. "
         "Download or copy it again. If it was saved after "
         "torch.serialization.set_crc32_options(False), which leaves checksums out, save it again "
         "after set_crc32_options(True).",
         file_, excerpt(name), crc, record.crc);
  }
  return content;
}

}  // namespace whisker
