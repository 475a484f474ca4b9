// The cache on disk: see Note [Packed file].
#include "core/error.h"
#include "core/io/atomic_file.h"
#include "core/io/file.h"
#include "core/io/hash.h"
#include "core/io/text.h"
#include "data/images/image_cache.h"
#include "data/images/image_dataset.h"
#include "data/parallel.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace whisker {
namespace {

static_assert(std::endian::native == std::endian::little, "the packed file is little-endian");

constexpr std::string_view magic = "WHSKPACK";
constexpr int version = 2;
constexpr int64_t chunk = 64;  // images decoded before they are written

struct Entry {
  uint64_t offset = 0;
  uint32_t height = 0;
  uint32_t width = 0;
  uint64_t pixels_hash = 0;
  FileStamp stamp = {};
  uint64_t bytes() const { return uint64_t{height} * width * 3; }
};
static_assert(sizeof(Entry) == 40);

struct Trailer {
  uint64_t count = 0;
  uint64_t index_hash = 0;
  uint64_t fingerprint = 0;
  std::array<char, 8> mark{};
};
static_assert(sizeof(Trailer) == 32);

template <class T>
uint64_t hash_of(const std::vector<T>& values) {
  Hash64 hash;
  hash.update(std::as_bytes(std::span(values)));
  return hash.value();
}

uint64_t pack_fingerprint(const ImageFolder& folder, const PackOptions& options) {
  std::string rules;  // of caches without them: 1, 16
  if (options.rules != DecodeRules{.version = 1}) {
    rules = fmt::format(" {} {}", options.rules.version, options.rules.png_bits);
  }
  return hash64(fmt::format("{} {} {} {}{}", version, fingerprint(folder), options.max_pixels,
                            options.short_side, rules));
}

Trailer trailer_of(const std::vector<Entry>& index, uint64_t fingerprint) {
  Trailer trailer{.count = index.size(), .index_hash = hash_of(index), .fingerprint = fingerprint};
  std::copy(magic.begin(), magic.end(), trailer.mark.begin());
  return trailer;
}

/// A packed file, open. Reads and writes say whether all bytes came; neither can raise a signal
/// when the file is cut meanwhile, as a mapping would.
class PackedFile {
 public:
  explicit PackedFile(FileDescriptor fd) : fd_(std::move(fd)) {}

  /// Nothing when it is no regular file.
  std::optional<uint64_t> size() const {
    struct stat info {};
    if (::fstat(fd_.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
    return static_cast<uint64_t>(info.st_size);
  }
  bool read(uint64_t offset, std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t got =
          ::pread(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      offset += static_cast<uint64_t>(got);
      bytes = bytes.subspan(static_cast<size_t>(got));
    }
    return true;
  }
  bool write(uint64_t offset, std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t put =
          ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return false;
      offset += static_cast<uint64_t>(put);
      bytes = bytes.subspan(static_cast<size_t>(put));
    }
    return true;
  }

 private:
  FileDescriptor fd_;
};

/// What is at `path`; nothing when nothing is. Throws usage unless it is a packed file, whole or
/// not: nothing else is ever replaced.
std::optional<PackedFile> open_packed(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  constexpr int flags = O_CLOEXEC | O_NONBLOCK;
  FileDescriptor fd(::open(path.c_str(), O_RDWR | flags));
  if (!fd && errno != ENOENT) fd = FileDescriptor(::open(path.c_str(), O_RDONLY | flags));
  const int error = errno;
  std::error_code ignored;
  if (!fd && error == ENOENT && !std::filesystem::is_symlink(path, ignored)) return std::nullopt;
  if (!fd) fail_disk("open", path, error);
  PackedFile file(std::move(fd));
  const bool regular = file.size().has_value();
  std::array<char, magic.size()> mark{};
  if (!regular || !file.read(0, std::as_writable_bytes(std::span(mark))) ||
      std::string_view(mark.data(), mark.size()) != magic) {
    fail(ErrorKind::usage,
         "data.cache_file: expected a Whisker cache or no file at {}, got {}, which is not "
         "replaced. Name another file, or remove this one.",
         printable(path.string()), regular ? "another file" : "no regular file");
  }
  return file;
}

struct PackedIndex {
  std::vector<Entry> entries;
  uint64_t at = 0;  ///< in the file
};

/// The index of a packed file of these data, or nothing.
std::optional<PackedIndex> read_index(const PackedFile& file, int64_t count,
                                      uint64_t expected_fingerprint) {
  const size_t index_bytes = static_cast<size_t>(count) * sizeof(Entry);
  const uint64_t size = file.size().value_or(0);
  if (size < magic.size() + index_bytes + sizeof(Trailer)) return std::nullopt;
  Trailer trailer;
  std::vector<Entry> index(static_cast<size_t>(count));
  const uint64_t pixels_end = size - sizeof(Trailer) - index_bytes;
  if (!file.read(size - sizeof(Trailer), std::as_writable_bytes(std::span(&trailer, 1))) ||
      !file.read(pixels_end, std::as_writable_bytes(std::span(index)))) {
    return std::nullopt;
  }
  const std::string_view mark(trailer.mark.data(), trailer.mark.size());
  if (mark != magic || trailer.count != static_cast<uint64_t>(count) ||
      trailer.fingerprint != expected_fingerprint || hash_of(index) != trailer.index_hash) {
    return std::nullopt;
  }
  for (const Entry& entry : index) {
    const bool sides_fit = entry.height <= 65535 && entry.width <= 65535;
    if (!sides_fit || entry.offset > pixels_end || entry.bytes() > pixels_end - entry.offset) {
      return std::nullopt;
    }
  }
  return PackedIndex{std::move(index), pixels_end};
}

class DiskCache final : public ImageCache {
 public:
  DiskCache(PackedFile file, PackedIndex index, uint64_t fingerprint, std::string name,
            std::string note)
      : file_(std::move(file)),
        index_(std::move(index.entries)),
        trailer_(trailer_of(index_, fingerprint)),
        index_at_(index.at),
        name_(std::move(name)),
        note_(std::move(note)) {}

  bool get(int64_t index, Image& out) const override {
    const Entry& entry = index_[static_cast<size_t>(index)];
    if (entry.bytes() == 0) return false;
    out.reshape(static_cast<int>(entry.height), static_cast<int>(entry.width));
    if (file_.read(entry.offset, std::as_writable_bytes(std::span(out.rgb))) &&
        hash_of(out.rgb) == entry.pixels_hash) {
      return true;
    }
    damaged_ = true;
    return false;
  }

  /// Repairs what get() did not find whole, unless the image's own file is another one by now. What
  /// cannot be written stays damaged, and is decoded each time.
  void put(int64_t index, const Image& image) override {
    const Entry& entry = index_[static_cast<size_t>(index)];
    if (entry.bytes() != image.rgb.size() || hash_of(image.rgb) != entry.pixels_hash) return;
    const std::lock_guard lock(mutex_);
    if (!file_.write(entry.offset, std::as_bytes(std::span(image.rgb)))) return;
    const uint64_t end = index_at_ + index_.size() * sizeof(Entry) + sizeof(Trailer);
    if (file_.size().value_or(end) < end) write_index();  // it had been cut
  }

  std::string take_note() override {
    if (damaged_ && !std::exchange(noted_, true)) {
      note_ = fmt::format(
          "data.cache: {} was truncated or damaged; its damaged images are decoded again and "
          "rewritten",
          name_);
    }
    return std::exchange(note_, {});
  }

  void write_index() const {
    file_.write(0, std::as_bytes(std::span(magic)));
    file_.write(index_at_, std::as_bytes(std::span(index_)));
    file_.write(index_at_ + index_.size() * sizeof(Entry), std::as_bytes(std::span(&trailer_, 1)));
  }

 private:
  PackedFile file_;
  std::vector<Entry> index_;
  Trailer trailer_;
  uint64_t index_at_;
  std::string name_;  // for messages
  std::string note_;
  std::mutex mutex_;  // of repairs
  mutable std::atomic<bool> damaged_ = false;
  bool noted_ = false;
};

void write_packed(const ImageFolder& folder, const std::filesystem::path& path,
                  const PackOptions& options, FileStamps& stamps) {
  AtomicFile file(path);
  file.write(magic);
  std::vector<Entry> index(static_cast<size_t>(folder.size()));
  std::vector<Image> images(static_cast<size_t>(chunk));
  for (int64_t begin = 0; begin < folder.size(); begin += chunk) {
    const int64_t count = std::min(chunk, folder.size() - begin);
    parallel_for(count, options.workers, [&](int64_t i) {
      Image& image = images[static_cast<size_t>(i)];
      try {
        image = read_image(folder, begin + i, options, stamps);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::data) throw;
        image = Image{};
      }
      index[static_cast<size_t>(begin + i)] = {.height = static_cast<uint32_t>(image.height),
                                               .width = static_cast<uint32_t>(image.width),
                                               .pixels_hash = hash_of(image.rgb)};
    });
    for (int64_t i = 0; i < count; ++i) {
      index[static_cast<size_t>(begin + i)].offset = file.size();
      file.write(std::as_bytes(std::span(images[static_cast<size_t>(i)].rgb)));
    }
  }
  const std::vector<FileStamp> seen = stamps.get();
  for (size_t i = 0; i < index.size(); ++i) index[i].stamp = seen[i];
  const Trailer trailer = trailer_of(index, pack_fingerprint(folder, options));
  file.write(std::as_bytes(std::span(index)));
  file.write(std::as_bytes(std::span(&trailer, 1)));
  file.commit();
}

/// The cache in `file`, or nothing when that is not of these data.
std::unique_ptr<ImageCache> use_packed(PackedFile file, const std::filesystem::path& path,
                                       const ImageFolder& folder, const PackOptions& options,
                                       FileStamps& stamps, const std::string& note) {
  const uint64_t expected = pack_fingerprint(folder, options);
  auto index = read_index(file, folder.size(), expected);
  if (!index) return nullptr;
  std::vector<FileStamp> before;
  for (const Entry& entry : index->entries) before.push_back(entry.stamp);
  if (!stamps.changed_since(before, options.workers).empty()) return nullptr;
  stamps.set(before);
  bool touched = false;  // other times, the same content: not to be read again at the next start
  for (size_t i = 0; i < index->entries.size(); ++i) {
    int64_t& modified = index->entries[i].stamp.modified_ns;
    touched |= modified != folder.files[i].modified_ns;
    modified = folder.files[i].modified_ns;
  }
  auto cache = std::make_unique<DiskCache>(std::move(file), std::move(*index), expected,
                                           printable(path.string()), note);
  if (touched) cache->write_index();
  return cache;
}

}  // namespace

std::unique_ptr<ImageCache> disk_cache(const ImageFolder& folder, const std::filesystem::path& file,
                                       const PackOptions& options, FileStamps& stamps) {
  std::string note;
  const auto open = [&]() -> std::unique_ptr<ImageCache> {
    std::optional<PackedFile> packed = open_packed(file);
    if (!packed) return nullptr;
    auto cache = use_packed(std::move(*packed), file, folder, options, stamps, note);
    note =
        fmt::format("data.cache: {} was damaged, or belongs to other images or settings: rebuilt",
                    printable(file.string()));
    return cache;
  };
  if (auto cache = open()) return cache;
  std::error_code missing;
  const std::filesystem::path target = std::filesystem::canonical(file, missing);
  write_packed(folder, missing ? file : target, options, stamps);  // a link stays one
  auto cache = open();
  if (!cache) {
    fail(ErrorKind::disk, "data.cache: {} could not be read back after it was written.",
         printable(file.string()));
  }
  return cache;
}

}  // namespace whisker
