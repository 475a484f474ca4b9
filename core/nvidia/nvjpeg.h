// NVIDIA's JPEG library, opened at run time and never linked. The prototypes here follow the nvJPEG
// library guide, "nvJPEG Type Declarations" and "nvJPEG API Reference"; streams and device memory
// are plain pointers, so that no header of CUDA is needed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace whisker {

/// The library, and the decoder of the thread's current GPU. Thread-safe. States that it makes must
/// not outlive it.
class Nvjpeg {
 public:
  /// Opens the first of `names` that exists, with the GPU's JPEG engine where it has one, else its
  /// multiprocessors. Throws device when there is no library, it lacks a function or does not
  /// start.
  explicit Nvjpeg(std::span<const std::string> names);
  /// libnvjpeg.so.13, else of 12.
  Nvjpeg();
  ~Nvjpeg();
  Nvjpeg(const Nvjpeg&) = delete;
  Nvjpeg& operator=(const Nvjpeg&) = delete;

  /// "13.0".
  std::string version() const;
  /// Whether the GPU has a JPEG engine; it is then used.
  bool hardware() const { return hardware_; }
  /// Whether a batch may hold this file.
  bool accepts(std::span<const uint8_t> file) const;
  /// Leaves handle and states to the end of the process: freeing them on a lost GPU never returns.
  void abandon() { abandoned_ = true; }

  class State;

 private:
  struct Functions;
  std::unique_ptr<Functions> functions_;
  void* handle_ = nullptr;  // nvjpegHandle_t
  bool hardware_ = false;
  std::atomic<bool> abandoned_ = false;
};

/// The decoder's state for one batch at a time.
class Nvjpeg::State {
 public:
  explicit State(const Nvjpeg& library);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// A file, and device memory for its pixels: RGB, rows `pitch` bytes apart.
  struct Item {
    std::span<const uint8_t> file;
    uint8_t* pixels = nullptr;
    int64_t pitch = 0;
    int height = 0;
    int width = 0;
  };
  /// Enqueues the decoding of `items` on `stream` (a cudaStream_t). The files must stay valid until
  /// it is done. Returns "", or why the library refused the batch.
  std::string decode(std::span<const Item> items, void* stream);

 private:
  void reserve_memory(std::span<const Item> items);

  const Nvjpeg& library_;
  void* state_ = nullptr;  // nvjpegJpegState_t
  size_t batch_ = 0;       // that the state is initialised for
  struct Size {
    int batch = 0, height = 0, width = 0;
    bool operator==(const Size&) const = default;
    int64_t pixels() const { return int64_t{height} * width; }
  };
  Size reserved_;  // what reserve_memory() has asked for
};

}  // namespace whisker
