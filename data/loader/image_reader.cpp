#include "data/loader/image_reader.h"

#include "core/error.h"
#include "core/io/file.h"
#include "data/codec/decode.h"
#include "data/parallel.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace whisker {
ImageReader::ImageReader(int workers, PartOf part_of, const DecodeRules& rules, bool clips)
    : workers_(std::max(1, resolve_workers(workers))),
      part_of_(std::move(part_of)),
      rules_(rules),
      clips_(clips) {}

ImageReader::~ImageReader() {
  const Lock lock(mutex_);
  ends_ = true;
  waiting_.clear();
  work_.notify_all();
}

void ImageReader::start(std::string path, Use use) {
  const Lock lock(mutex_);
  started_.push_back(std::make_shared<File>(File{.path = std::move(path), .use = std::move(use)}));
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

std::string ImageReader::take() {
  Lock lock(mutex_);
  const std::shared_ptr<File> file = started_.front();
  while (!file->done) {
    if (!read_next(lock, decoded_)) done_.wait(lock);
  }
  started_.pop_front();
  alpha_files_ += file->alpha ? 1 : 0;
  if (file->largest_sample > 0) {
    ++deep_files_.files;
    ++deep_files_.read;
    deep_files_.add(file->largest_sample, rules_.png_bits);
  }
  if (file->failure) std::rethrow_exception(file->failure);
  return file->error;
}

void ImageReader::run() {
  Decoded decoded;
  Lock lock(mutex_);
  while (!ends_) {
    if (!read_next(lock, decoded)) work_.wait(lock);
  }
}

// False where no file waits. Unlocked while it reads and uses the image.
bool ImageReader::read_next(Lock& lock, Decoded& decoded) {
  if (waiting_.empty()) return false;
  const std::shared_ptr<File> file = waiting_.front();
  waiting_.pop_front();
  lock.unlock();
  try {
    file->error = read_image(file->path, decoded);
    if (file->error.empty()) {
      file->largest_sample = decoded.largest_sample;
      file->alpha = decoded.has_alpha;
      file->use(decoded.image);
    }
  } catch (...) {
    file->failure = std::current_exception();
  }
  lock.lock();
  file->done = true;
  done_.notify_one();
  return true;
}

// Why there is no image; empty: `out` holds it.
std::string ImageReader::read_image(const std::string& path, Decoded& out) const {
  try {
    const std::string content = read_file(path, max_image_bytes, ErrorKind::data, Source::stream);
    DecodeOptions how{.rules = rules_};
    if (part_of_) how.part = part_of_(read_header(bytes_of(content), how.max_pixels, rules_));
    decode(bytes_of(content), how, out);
    const std::string clipped = clips_ ? "" : clipped_note(out.largest_sample, rules_.png_bits);
    return clipped.empty() ? "" : "its largest sample " + clipped;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    return error.what();
  }
}

}  // namespace whisker
