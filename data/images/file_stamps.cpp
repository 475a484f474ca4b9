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

std::vector<std::string> FileStamps::changed_since(std::span<const FileStamp> before,
                                                   int workers) const {
  std::vector<int64_t> touched;
  for (int64_t i = 0; i < folder_.size(); ++i) {
    const auto at = static_cast<size_t>(i);
    const bool known = before[at].content != 0;
    if (known && folder_.files[at].modified_ns != before[at].modified_ns) touched.push_back(i);
  }
  std::vector<uint8_t> changed(touched.size());
  parallel_for(std::ssize(touched), workers, [&](int64_t i) {
    const int64_t index = touched[static_cast<size_t>(i)];
    const auto at = static_cast<size_t>(index);
    const uint64_t read = contents_[at].load(std::memory_order_relaxed);
    const uint64_t content = read != 0 ? read : content_hash(folder_.file(index));
    changed[static_cast<size_t>(i)] = content != before[at].content;
  });
  std::vector<std::string> paths;
  for (size_t i = 0; i < touched.size(); ++i) {
    if (changed[i] != 0) paths.push_back(folder_.file(touched[i]).string());
  }
  return paths;
}

void FileStamps::set(std::span<const FileStamp> before) {
  for (size_t i = 0; i < contents_.size(); ++i) {
    if (before[i].content != 0) contents_[i] = before[i].content;
  }
}

}  // namespace whisker
