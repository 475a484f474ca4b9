// The cache on disk: see Note [Packed file].
#include "core/error.h"
#include "core/io/atomic_file.h"
#include "core/io/file.h"
#include "core/io/hash.h"
#include "data/parallel.h"
#include "data/picture_cache.h"
#include "data/picture_dataset.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <system_error>
#include <vector>

namespace whisker {
namespace {

static_assert(std::endian::native == std::endian::little, "the packed file is little-endian");

constexpr std::string_view magic = "WHSKPACK";
constexpr int version = 1;
constexpr int64_t chunk = 64;  // pictures decoded before they are written

struct Entry {
  uint64_t offset = 0;
  uint32_t height = 0;
  uint32_t width = 0;
  uint64_t bytes() const { return uint64_t{height} * width * 3; }
};
static_assert(sizeof(Entry) == 16);

struct Trailer {
  uint64_t count = 0;
  uint64_t index_hash = 0;
  uint64_t fingerprint = 0;
  std::array<char, 8> mark{};
};
static_assert(sizeof(Trailer) == 32);

uint64_t hash_of(std::span<const Entry> index) {
  Hash64 hash;
  hash.update(std::as_bytes(index));
  return hash.value();
}

uint64_t pack_fingerprint(const ImageFolder& folder, const PackOptions& options) {
  return hash64(fmt::format("{} {} {} {}", version, fingerprint(folder), options.max_pixels,
                            options.short_side));
}

/// The index of a packed file of these data, or nothing.
std::optional<std::vector<Entry>> read_index(std::span<const std::byte> file, int64_t count,
                                             uint64_t expected_fingerprint) {
  const size_t index_bytes = static_cast<size_t>(count) * sizeof(Entry);
  if (file.size() < magic.size() + index_bytes + sizeof(Trailer)) return std::nullopt;
  Trailer trailer;
  std::memcpy(&trailer, file.data() + file.size() - sizeof(Trailer), sizeof(Trailer));
  const std::string_view mark(trailer.mark.data(), trailer.mark.size());
  if (mark != magic || trailer.count != static_cast<uint64_t>(count) ||
      trailer.fingerprint != expected_fingerprint) {
    return std::nullopt;
  }
  std::vector<Entry> index(static_cast<size_t>(count));
  const size_t pixels_end = file.size() - sizeof(Trailer) - index_bytes;
  std::memcpy(index.data(), file.data() + pixels_end, index_bytes);
  if (hash_of(index) != trailer.index_hash) return std::nullopt;
  for (const Entry& entry : index) {
    const bool sides_fit = entry.height <= 65535 && entry.width <= 65535;
    if (!sides_fit || entry.offset > pixels_end || entry.bytes() > pixels_end - entry.offset) {
      return std::nullopt;
    }
  }
  return index;
}

class DiskCache final : public PictureCache {
 public:
  DiskCache(MappedFile file, std::vector<Entry> index)
      : file_(std::move(file)), index_(std::move(index)) {}

  bool get(int64_t index, Picture& out) const override {
    const Entry& entry = index_[static_cast<size_t>(index)];
    if (entry.bytes() == 0) return false;
    out.reshape(static_cast<int>(entry.height), static_cast<int>(entry.width));
    std::memcpy(out.rgb.data(), file_.bytes().data() + entry.offset, entry.bytes());
    return true;
  }
  /// The file is complete as it is; an unreadable picture is asked from its own file each time.
  void put(int64_t /*index*/, const Picture& /*picture*/) override {}

 private:
  MappedFile file_;
  std::vector<Entry> index_;
};

void write_packed(const ImageFolder& folder, const std::filesystem::path& path,
                  const PackOptions& options) {
  AtomicFile file(path);
  file.write(magic);
  std::vector<Entry> index(static_cast<size_t>(folder.size()));
  std::vector<Picture> pictures(static_cast<size_t>(chunk));
  for (int64_t begin = 0; begin < folder.size(); begin += chunk) {
    const int64_t count = std::min(chunk, folder.size() - begin);
    parallel_for(count, options.workers, [&](int64_t i) {
      Picture& picture = pictures[static_cast<size_t>(i)];
      try {
        picture = read_picture(folder, begin + i, options.max_pixels, options.short_side);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::data) throw;
        picture = Picture{};
      }
    });
    for (int64_t i = 0; i < count; ++i) {
      const Picture& picture = pictures[static_cast<size_t>(i)];
      index[static_cast<size_t>(begin + i)] = {.offset = file.size(),
                                               .height = static_cast<uint32_t>(picture.height),
                                               .width = static_cast<uint32_t>(picture.width)};
      file.write(std::as_bytes(std::span(picture.rgb)));
    }
  }
  Trailer trailer{.count = index.size(),
                  .index_hash = hash_of(index),
                  .fingerprint = pack_fingerprint(folder, options)};
  std::copy(magic.begin(), magic.end(), trailer.mark.begin());
  file.write(std::as_bytes(std::span(index)));
  file.write(std::as_bytes(std::span(&trailer, 1)));
  file.commit();
}

std::unique_ptr<PictureCache> open_packed(const ImageFolder& folder,
                                          const std::filesystem::path& path,
                                          const PackOptions& options) {
  std::error_code missing;
  if (!std::filesystem::is_regular_file(path, missing)) return nullptr;
  MappedFile file(path, ErrorKind::data);
  auto index = read_index(file.bytes(), folder.size(), pack_fingerprint(folder, options));
  if (!index) return nullptr;
  return std::make_unique<DiskCache>(std::move(file), std::move(*index));
}

}  // namespace

std::unique_ptr<PictureCache> disk_cache(const ImageFolder& folder,
                                         const std::filesystem::path& file,
                                         const PackOptions& options) {
  if (auto cache = open_packed(folder, file, options)) return cache;
  write_packed(folder, file, options);
  auto cache = open_packed(folder, file, options);
  if (!cache) {
    fail(ErrorKind::disk, "data.cache: {} could not be read back after it was written.",
         printable(file.string()));
  }
  return cache;
}

}  // namespace whisker
