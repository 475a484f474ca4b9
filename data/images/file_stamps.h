// Detects whether a folder's images have changed since they were read: size and time, else
// content. A copied folder has new times and the old content; an edited image has neither.
#pragma once

#include "data/images/image_folder.h"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// A file's state when it was read.
struct FileStamp {
  int64_t modified_ns = 0;  ///< mtime or ctime, the later; nanoseconds since 1970
  uint64_t content = 0;     ///< XXH64 of the bytes; 0: not read, or unreadable
};
static_assert(sizeof(FileStamp) == 16);

/// The stamps of a folder's images. Times come with the listing; contents are hashed when images
/// are read. Thread-safe but for set().
class FileStamps {
 public:
  /// `folder` must outlive it.
  explicit FileStamps(const ImageFolder& folder);

  /// Records the content of image `index`; the first record stays.
  void note(int64_t index, std::string_view bytes);
  /// Hashes the images not read yet, on `workers` threads (-1: auto), for at most `seconds`.
  void read_rest(int workers, double seconds);
  std::vector<FileStamp> get() const;

  /// The paths of images that differ from `before` (one stamp per image) in time and content. An
  /// unknown content counts as the same. Reads only images of another time; of those that have not
  /// been written since, as after rsync -a, chmod or a hard link, 256 and all where one differs.
  std::vector<std::string> changed_since(std::span<const FileStamp> before, int workers) const;
  /// Copies the content hashes of `before` for images that have not changed since.
  void set(std::span<const FileStamp> before);

 private:
  std::vector<int64_t> of_other_content(std::span<const int64_t> images,
                                        std::span<const FileStamp> before, int workers) const;

  const ImageFolder& folder_;
  std::vector<std::atomic<uint64_t>> contents_;  // by index; 0: not read yet
};

/// XXH64 of an image file; 0 when it cannot be read.
uint64_t content_hash(const std::filesystem::path& file);

}  // namespace whisker
