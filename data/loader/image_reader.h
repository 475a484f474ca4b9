// Image files read, decoded and handed on by threads; waited for in the order they are asked for.
#pragma once

#include "data/codec/decode.h"
#include "data/codec/sample_bits.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace whisker {

/// Reads files for one thread, which reads as well while it waits. Others start when several wait.
class ImageReader {
 public:
  /// Called with the image of a file on the thread that decoded it, unless the file is unreadable.
  /// The image's memory is used again afterwards.
  using Use = std::function<void(const Image&)>;
  /// The upright pixels of an image that its user reads; others may be unspecified.
  using PartOf = std::function<Rect(const ImageHeader&)>;

  /// Number of threads, the caller's included: see resolve_workers(). Without `part_of`
  /// images are decoded whole. `clips`: samples above rules.png_bits are white; else such a file is
  /// unreadable.
  explicit ImageReader(int workers = -1, PartOf part_of = {}, const DecodeRules& rules = {},
                       bool clips = true);
  /// Files that no thread has begun are not read; waits for the others.
  ~ImageReader();
  ImageReader(const ImageReader&) = delete;
  ImageReader& operator=(const ImageReader&) = delete;

  int workers() const { return workers_; }
  /// Counts of the files taken: those of 16 bits, and those with an alpha channel.
  const PngBits& deep_files() const { return deep_files_; }
  int64_t alpha_files() const { return alpha_files_; }
  void start(std::string path, Use use);
  /// Waits for the first file started that was not taken yet; there must be one. Empty: its image
  /// was used; else why there is none. Throws whatever is not the file's fault.
  std::string take();

 private:
  struct File {
    std::string path;
    Use use;
    std::string error = {};
    std::exception_ptr failure = nullptr;
    uint32_t largest_sample = 0;
    bool alpha = false, done = false;
  };
  using Lock = std::unique_lock<std::mutex>;
  void run();
  bool read_next(Lock& lock, Decoded& decoded);
  std::string read_image(const std::string& path, Decoded& out) const;

  int workers_;
  PartOf part_of_;
  DecodeRules rules_;
  bool clips_;
  PngBits deep_files_;
  int64_t alpha_files_ = 0;
  Decoded decoded_;  // the caller's
  std::mutex mutex_;
  std::condition_variable work_, done_;
  bool ends_ = false;
  std::deque<std::shared_ptr<File>> started_;  // and not taken
  std::deque<std::shared_ptr<File>> waiting_;  // those of them that no thread has begun
  std::vector<std::jthread> threads_;          // last: joined before the rest goes
};

}  // namespace whisker
