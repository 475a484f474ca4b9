#include "data/images/shared_images.h"

#include "data/batch_source.h"
#include "data/images/file_stamps.h"
#include "data/parallel.h"

#include <atomic>
#include <chrono>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

namespace whisker {
namespace {

namespace fs = std::filesystem;

// The hash of a file, read unless it is known; 0 where the time is over.
uint64_t hash_in_time(ImageFolder& folder, int64_t number,
                      std::chrono::steady_clock::time_point begin, double seconds) {
  uint64_t& content = folder.files[static_cast<size_t>(number)].content;
  if (content == 0 && seconds_since(begin) <= seconds) content = content_hash(folder.file(number));
  return content;
}

// The hashes of the files with these numbers; 0 for a file that cannot be read, or where the time
// is over.
std::vector<uint64_t> hashes_of(ImageFolder& folder, const std::vector<int64_t>& numbers,
                                std::chrono::steady_clock::time_point begin, double seconds) {
  std::vector<uint64_t> hashes(numbers.size());
  parallel_for(std::ssize(numbers), -1, [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    hashes[at] = hash_in_time(folder, numbers[at], begin, seconds);
  });
  return hashes;
}

}  // namespace

SharedImages find_shared(ImageFolder& images, ImageFolder& others, double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  std::error_code error;
  const bool gone = !fs::exists(others.root, error);
  const auto root_of = [&](const ImageFolder& folder) {
    return gone ? std::string() : fs::absolute(folder.root / "", error).lexically_normal().string();
  };
  const std::string own_root = root_of(images), other_root = root_of(others);
  std::set<std::pair<std::string, uint64_t>> places;
  std::set<uint64_t> sizes;
  for (const ImageFile& file : others.files) {
    places.emplace(other_root + file.path, file.bytes);
    if (file.bytes > 0) sizes.insert(file.bytes);
  }
  SharedImages shared;
  const auto add = [&](const ImageFile& file) {
    if (shared.count++ == 0) shared.example = file.path;
  };
  std::vector<int64_t> doubtful, candidates;
  std::set<uint64_t> doubtful_sizes;
  for (int64_t i = 0; i < images.size(); ++i) {
    const ImageFile& file = images.files[static_cast<size_t>(i)];
    if (places.contains(std::pair(own_root + file.path, file.bytes))) {
      add(file);
    } else if (!gone && sizes.contains(file.bytes)) {
      doubtful.push_back(i);
      doubtful_sizes.insert(file.bytes);
    }
  }
  for (int64_t i = 0; i < others.size(); ++i) {
    const uint64_t bytes = others.files[static_cast<size_t>(i)].bytes;
    if (doubtful_sizes.contains(bytes)) candidates.push_back(i);
  }
  const std::vector<uint64_t> own = hashes_of(images, doubtful, begin, seconds / 2);
  const std::vector<uint64_t> theirs = hashes_of(others, candidates, begin, seconds);
  const std::set<uint64_t> known(theirs.begin(), theirs.end());
  const bool late = seconds_since(begin) > seconds;
  for (size_t i = 0; i < doubtful.size(); ++i) {
    const ImageFile& file = images.files[static_cast<size_t>(doubtful[i])];
    if (own[i] != 0 && known.contains(own[i])) {
      add(file);
    } else if (late) {
      ++shared.unread;
    }
  }
  return shared;
}

ContradictingImages find_contradictions(ImageFolder& images, double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<uint64_t> sizes;
  for (const ImageFile& file : images.files) sizes.push_back(file.bytes);
  std::atomic<int64_t> late = 0;
  const std::vector<int64_t> originals = find_copies(sizes, [&](int64_t i) {
    if (sizes[static_cast<size_t>(i)] == 0) return uint64_t{0};  // empty: no image
    const uint64_t content = hash_in_time(images, i, begin, seconds);
    if (content == 0 && seconds_since(begin) > seconds) ++late;
    return content;
  });
  return {find_contradictions(originals, images.labels()), late};
}

}  // namespace whisker
