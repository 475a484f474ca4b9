// See Note [Order on disk] in the header.
#include "core/io/atomic_file.h"

#include "core/io/temporaries.h"
#include "core/work_progress.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace whisker {
namespace {

constexpr size_t buffer_bytes = 64 * 1024;  // larger pieces go straight to write()
// At a time, so that a slow disk shows progress (core/work_progress.h).
constexpr size_t flushed_bytes = 64 << 20;
constexpr std::string_view temporary_suffix = ".whisker-tmp";

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path, const FileCalls& calls)
    : path_(std::move(path)), calls_(calls) {
  // The name carries no part of the destination's, which may already have 255 bytes.
  for (int attempt = 0; fd_ < 0; ++attempt) {
    temporary_ = folder() / fmt::format(".{}-{}{}", ::getpid(), attempt, temporary_suffix);
    const bool created = create_temporary(temporary_, [&] {
      fd_ = calls_.open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      return fd_ >= 0;
    });
    if (!created && errno != EEXIST && errno != EINTR) fail_disk("create", path_, errno);
  }
  buffer_.reserve(buffer_bytes);
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) calls_.close(fd_);
  if (temporary_.empty()) return;
  calls_.unlink(temporary_.c_str());
  forget_temporary(temporary_);
}

std::filesystem::path AtomicFile::folder() const {
  const std::filesystem::path parent = path_.parent_path();
  return parent.empty() ? "." : parent;
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  hash_.update(bytes);
  size_ += bytes.size();
  if (buffer_.size() + bytes.size() > buffer_bytes) flush();
  if (bytes.size() <= buffer_bytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return;
  }
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), flushed_bytes))) {
    put(bytes.first(std::min(bytes.size(), flushed_bytes)));
  }
}

void AtomicFile::flush() {
  put(buffer_);
  buffer_.clear();
}

void AtomicFile::put(std::span<const std::byte> bytes) {
  write_all(calls_, fd_, bytes, path_);
  unsynced_ += bytes.size();
  if (unsynced_ >= flushed_bytes) sync();
}

void AtomicFile::sync() {
  unsynced_ = 0;
  if (calls_.fsync(fd_) != 0) fail_disk("flush to disk", path_, errno);
  count_progress();
}

void AtomicFile::commit() {
  flush();
  sync();
  if (calls_.close(std::exchange(fd_, -1)) != 0) fail_disk("close", path_, errno);
  if (calls_.rename(temporary_.c_str(), path_.c_str()) != 0) fail_disk("rename", path_, errno);
  forget_temporary(temporary_);
  temporary_.clear();
  sync_folder(calls_, folder());
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

int remove_stale_temporaries(const std::filesystem::path& folder) {
  int removed = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') && name.ends_with(temporary_suffix)) {
      removed += std::filesystem::remove(entry.path(), error) ? 1 : 0;
    }
  }
  return removed;
}

}  // namespace whisker
