#include "data/loader/image_reader.h"

#include "core/error.h"
#include "core/io/file.h"
#include "data/codec/decode.h"
#include "data/parallel.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace whisker {
namespace {

ReadImage read_image(const std::string& path) {
  try {
    return {decode(bytes_of(read_file(path, max_image_bytes, ErrorKind::data, Source::stream)))};
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    return {.image = {}, .error = error.what()};
  }
}

}  // namespace

ImageReader::ImageReader(int workers, size_t most_held_bytes)
    : workers_(std::max(1, resolve_workers(workers))), most_held_bytes_(most_held_bytes) {}

ImageReader::~ImageReader() {
  const Lock lock(mutex_);
  ends_ = true;
  waiting_.clear();
  work_.notify_all();
}

void ImageReader::start(std::string path) {
  const Lock lock(mutex_);
  started_.push_back(std::make_shared<File>(File{.path = std::move(path)}));
  waiting_.push_back(started_.back());
  if (waiting_.size() > 1 && std::ssize(threads_) + 1 < workers_) {
    try {
      threads_.emplace_back([this] { run(); });
    } catch (const std::system_error&) {  // the system allows no more
      workers_ = static_cast<int>(std::ssize(threads_)) + 1;
    }
  }
  work_.notify_one();
}

ReadImage ImageReader::take() {
  Lock lock(mutex_);
  const std::shared_ptr<File> file = started_.front();
  while (!file->done) {
    if (!read_next(lock)) done_.wait(lock);
  }
  started_.pop_front();
  if (held_bytes_ > most_held_bytes_) work_.notify_all();
  held_bytes_ -= file->read.image.rgb.size();
  if (file->failure) std::rethrow_exception(file->failure);
  return std::move(file->read);
}

void ImageReader::run() {
  Lock lock(mutex_);
  while (!ends_) {
    if (!read_next(lock)) work_.wait(lock);
  }
}

// False where no file waits, or images take much memory and this would not be the next one.
// Unlocked while it reads.
bool ImageReader::read_next(Lock& lock) {
  if (waiting_.empty()) return false;
  if (held_bytes_ > most_held_bytes_ && waiting_.front() != started_.front()) return false;
  const std::shared_ptr<File> file = waiting_.front();
  waiting_.pop_front();
  lock.unlock();
  ReadImage read;
  std::exception_ptr failure;
  try {
    read = read_image(file->path);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  held_bytes_ += read.image.rgb.size();
  file->read = std::move(read);
  file->failure = failure;
  file->done = true;
  done_.notify_one();
  return true;
}

}  // namespace whisker
