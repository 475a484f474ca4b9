#include "data/images/file_stamps.h"

#include "core/error.h"
#include "core/io/file.h"
#include "core/io/hash.h"
#include "data/codec/decode.h"
#include "data/parallel.h"

#include <algorithm>
#include <chrono>

namespace whisker {
namespace {

uint64_t hash_of(std::string_view bytes) {
  return std::max<uint64_t>(1, hash64(bytes));
}

}  // namespace

uint64_t content_hash(const std::filesystem::path& file) {
  try {
    return hash_of(read_file(file, max_image_bytes, ErrorKind::data));
  } catch (const Error&) {
    return 0;
  }
}

FileStamps::FileStamps(const ImageFolder& folder)
    : folder_(folder), contents_(static_cast<size_t>(folder.size())) {}

void FileStamps::note(int64_t index, std::string_view bytes) {
  std::atomic<uint64_t>& content = contents_[static_cast<size_t>(index)];
  if (content.load(std::memory_order_relaxed) != 0) return;
  uint64_t unread = 0;
  content.compare_exchange_strong(unread, hash_of(bytes), std::memory_order_relaxed);
}

void FileStamps::read_rest(int workers, double seconds) {
  using Clock = std::chrono::steady_clock;
  std::vector<int64_t> unread;
  for (int64_t i = 0; i < folder_.size(); ++i) {
    if (contents_[static_cast<size_t>(i)].load(std::memory_order_relaxed) == 0) unread.push_back(i);
  }
  const Clock::time_point begin = Clock::now();
  parallel_for(std::ssize(unread), workers, [&](int64_t i) {
    if (std::chrono::duration<double>(Clock::now() - begin).count() > seconds) return;
    const int64_t index = unread[static_cast<size_t>(i)];
    contents_[static_cast<size_t>(index)].store(content_hash(folder_.file(index)),
                                                std::memory_order_relaxed);
  });
}

std::vector<FileStamp> FileStamps::get() const {
  std::vector<FileStamp> stamps;
  stamps.reserve(contents_.size());
  for (size_t i = 0; i < contents_.size(); ++i) {
    stamps.push_back({.modified_ns = folder_.files[i].modified_ns,
                      .content = contents_[i].load(std::memory_order_relaxed)});
  }
  return stamps;
}

std::vector<int64_t> FileStamps::of_other_content(std::span<const int64_t> images,
                                                  std::span<const FileStamp> before,
                                                  int workers) const {
  std::vector<uint8_t> changed(images.size());
  parallel_for(std::ssize(images), workers, [&](int64_t i) {
    const int64_t index = images[static_cast<size_t>(i)];
    const auto at = static_cast<size_t>(index);
    const uint64_t read = contents_[at].load(std::memory_order_relaxed);
    const uint64_t content = read != 0 ? read : content_hash(folder_.file(index));
    changed[static_cast<size_t>(i)] = content != before[at].content;
  });
  std::vector<int64_t> found;
  for (size_t i = 0; i < images.size(); ++i) {
    if (changed[i] != 0) found.push_back(images[i]);
  }
  return found;
}

std::vector<std::string> FileStamps::changed_since(std::span<const FileStamp> before,
                                                   int workers) const {
  constexpr int64_t most = 256;
  std::vector<int64_t> touched, unwritten;  // those whose status alone has another time
  for (int64_t i = 0; i < folder_.size(); ++i) {
    const auto at = static_cast<size_t>(i);
    const ImageFile& file = folder_.files[at];
    const int64_t then = before[at].modified_ns;
    if (before[at].content == 0 || file.modified_ns == then) continue;
    (file.written_ns > then ? touched : unwritten).push_back(i);
  }
  std::vector<int64_t> sample;
  const int64_t count = std::min(most, std::ssize(unwritten));
  for (int64_t k = 0; k < count; ++k) {
    sample.push_back(unwritten[static_cast<size_t>(k * std::ssize(unwritten) / count)]);
  }
  if (!of_other_content(sample, before, workers).empty()) {
    touched.insert(touched.end(), unwritten.begin(), unwritten.end());
    std::ranges::sort(touched);
  }
  std::vector<std::string> paths;
  for (const int64_t index : of_other_content(touched, before, workers)) {
    paths.push_back(folder_.file(index).string());
  }
  return paths;
}

void FileStamps::set(std::span<const FileStamp> before) {
  for (size_t i = 0; i < contents_.size(); ++i) {
    if (before[i].content != 0) contents_[i] = before[i].content;
  }
}

}  // namespace whisker
