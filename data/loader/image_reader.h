// Image files read and decoded by threads, in the order in which they are asked for.
#pragma once

#include "data/codec/image.h"

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace whisker {

/// The image of a file, or why there is none.
struct ReadImage {
  Image image;
  std::string error = {};  ///< empty: it could be read
};

/// For one thread, which reads as well while it waits. Others start when several files wait.
class ImageReader {
 public:
  /// Number of threads, the caller's included; -1 (auto): one per core, at most 16.
  /// The others rest while more than `most_held_bytes` of images wait to be taken.
  explicit ImageReader(int workers = -1, size_t most_held_bytes = size_t{1} << 30);
  /// Files that no thread has begun are not read.
  ~ImageReader();
  ImageReader(const ImageReader&) = delete;
  ImageReader& operator=(const ImageReader&) = delete;

  int workers() const { return workers_; }
  void start(std::string path);
  /// Of the first file started that was not taken yet; there must be one. Throws whatever is not
  /// the file's fault.
  ReadImage take();

 private:
  struct File {
    std::string path;
    ReadImage read = {};
    std::exception_ptr failure = nullptr;
    bool done = false;
  };
  using Lock = std::unique_lock<std::mutex>;
  void run();
  bool read_next(Lock& lock);

  int workers_;
  size_t most_held_bytes_;
  std::mutex mutex_;
  std::condition_variable work_, done_;
  bool ends_ = false;
  size_t held_bytes_ = 0;                      // of images read and not taken
  std::deque<std::shared_ptr<File>> started_;  // and not taken
  std::deque<std::shared_ptr<File>> waiting_;  // those of them that no thread has begun
  std::vector<std::jthread> threads_;          // last: joined before the rest goes
};

}  // namespace whisker
