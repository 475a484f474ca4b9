#include "core/nvidia/nvjpeg.h"

#include "core/error.h"

#include <algorithm>
#include <array>
#include <vector>

#include <dlfcn.h>

namespace whisker {
namespace {

// nvjpegStatus_t
constexpr int nvjpeg_success = 0;
constexpr std::array<const char*, 11> status_texts = {
    "success",          "not initialised",    "invalid parameter",
    "bad JPEG",         "JPEG not supported", "no memory",
    "execution failed", "wrong architecture", "internal error",
    "not implemented",  "incomplete file"};
// nvjpegBackend_t
constexpr int gpu_hybrid = 2;
constexpr int hardware_engine = 3;
constexpr int interleaved_rgb = 5;  // NVJPEG_OUTPUT_RGBI
// NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION: chroma as the host's decoder has it.
constexpr unsigned interpolate_chroma = 1u << 5;

struct Image {  // nvjpegImage_t
  unsigned char* channel[4];
  size_t pitch[4];
};

std::string status_text(int status) {
  const bool known = status >= 0 && static_cast<size_t>(status) < status_texts.size();
  return known ? status_texts[static_cast<size_t>(status)] : fmt::format("error {}", status);
}

}  // namespace

struct Nvjpeg::Functions {
  explicit Functions(void* library) {
    find(library, "nvjpegGetProperty", get_property);
    find(library, "nvjpegCreateEx", create);
    find(library, "nvjpegDestroy", destroy);
    find(library, "nvjpegJpegStateCreate", create_state);
    find(library, "nvjpegJpegStateDestroy", destroy_state);
    find(library, "nvjpegJpegStreamCreate", create_stream);
    find(library, "nvjpegJpegStreamDestroy", destroy_stream);
    find(library, "nvjpegJpegStreamParseHeader", parse_header);
    find(library, "nvjpegDecodeBatchedSupported", supported);
    find(library, "nvjpegDecodeBatchedInitialize", initialize);
    find(library, "nvjpegDecodeBatched", decode);
    pre_allocate =
        reinterpret_cast<decltype(pre_allocate)>(dlsym(library, "nvjpegDecodeBatchedPreAllocate"));
  }

  template <class Function>
  void find(void* library, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    if (!function && missing.empty()) missing = name;
  }

  int (*get_property)(int property, int* value) = nullptr;
  int (*create)(int backend, void* device_allocator, void* pinned_allocator, unsigned flags,
                void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  int (*create_state)(void* handle, void** state) = nullptr;
  int (*destroy_state)(void* state) = nullptr;
  int (*create_stream)(void* handle, void** stream) = nullptr;
  int (*destroy_stream)(void* stream) = nullptr;
  int (*parse_header)(void* handle, const unsigned char* data, size_t length,
                      void* stream) = nullptr;
  int (*supported)(void* handle, void* stream, int* unsupported) = nullptr;  // 0: it is
  int (*initialize)(void* handle, void* state, int batch, int threads, int format) = nullptr;
  int (*decode)(void* handle, void* state, const unsigned char* const* data, const size_t* lengths,
                Image* targets, void* stream) = nullptr;
  // May be missing.
  int (*pre_allocate)(void* handle, void* state, int batch, int width, int height, int chroma,
                      int format) = nullptr;
  std::string missing;  // the first function that is not there
};

Nvjpeg::Nvjpeg(std::span<const std::string> names) {
  std::string reason;
  for (const std::string& name : names) {
    library_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_) break;
    reason += fmt::format("{}{}", reason.empty() ? "" : "; ", dlerror());
  }
  if (!library_) {
    fail(ErrorKind::device,
         "nvJPEG cannot be opened ({}). It is part of the CUDA toolkit: install it, or name its "
         "folder in LD_LIBRARY_PATH.",
         reason);
  }
  functions_ = std::make_unique<Functions>(library_);
  if (functions_->missing.empty()) return;
  const std::string missing = functions_->missing;
  dlclose(library_);
  fail(ErrorKind::device, "nvJPEG lacks {}: the library is too old. Install a newer one.", missing);
}

Nvjpeg::Nvjpeg() : Nvjpeg(std::array<std::string, 2>{"libnvjpeg.so.13", "libnvjpeg.so.12"}) {}

Nvjpeg::~Nvjpeg() {
  dlclose(library_);
}

std::string Nvjpeg::version() const {
  int major = 0, minor = 0;
  functions_->get_property(0, &major);
  functions_->get_property(1, &minor);
  return fmt::format("{}.{}", major, minor);
}

Nvjpeg::Handle::Handle(const Nvjpeg& library) : functions_(*library.functions_) {
  int status = nvjpeg_success;
  for (const int backend : {hardware_engine, gpu_hybrid}) {
    for (const unsigned flags : {interpolate_chroma, 0u}) {  // older libraries do not know the flag
      status = functions_.create(backend, nullptr, nullptr, flags, &handle_);
      if (status != nvjpeg_success) continue;
      hardware_ = backend == hardware_engine;
      return;
    }
  }
  fail(ErrorKind::device, "nvJPEG {} does not start: {}.", library.version(), status_text(status));
}

Nvjpeg::Handle::~Handle() {
  functions_.destroy(handle_);
}

bool Nvjpeg::Handle::accepts(std::span<const uint8_t> file) const {
  if (!hardware_) return true;  // takes whatever is plain
  void* stream = nullptr;
  if (functions_.create_stream(handle_, &stream) != nvjpeg_success) return false;
  int unsupported = 1;
  const bool parsed =
      functions_.parse_header(handle_, file.data(), file.size(), stream) == nvjpeg_success &&
      functions_.supported(handle_, stream, &unsupported) == nvjpeg_success;
  functions_.destroy_stream(stream);
  return parsed && unsupported == 0;
}

Nvjpeg::State::State(const Handle& handle) : handle_(handle) {
  const int status = handle_.functions_.create_state(handle_.handle_, &state_);
  if (status != nvjpeg_success) {
    fail(ErrorKind::device, "nvJPEG: cannot allocate memory to decode: {}.", status_text(status));
  }
}

Nvjpeg::State::~State() {
  handle_.functions_.destroy_state(state_);
}

// When an image does not fit, the library frees its memory and allocates more, which waits for all
// work of the GPU, again and again with images of all sizes. So each slot of a batch reserves
// memory for the image with the most pixels, up to a total limit. If that fails, or above the
// limit, the library allocates as needed.
void Nvjpeg::State::reserve_memory(std::span<const Item> items) {
  constexpr int step = 128;                          // pixels
  constexpr int64_t most_pixels = int64_t{1} << 28;  // of a batch, 3 bytes each
  constexpr int chroma_444 = 0;
  const Functions& functions = handle_.functions_;
  if (!handle_.hardware_ || !functions.pre_allocate || !reserves_memory_) return;
  const auto batch = static_cast<int64_t>(std::max(reserved_batch_, items.size()));
  int height = reserved_height_, width = reserved_width_;
  for (const Item& item : items) {
    const int rows = (item.height + step - 1) / step * step;
    const int columns = (item.width + step - 1) / step * step;
    const int64_t pixels = int64_t{rows} * columns;
    if (pixels <= int64_t{height} * width || pixels * batch > most_pixels) continue;
    height = rows;
    width = columns;
  }
  const bool enough = std::ssize(items) <= static_cast<int64_t>(reserved_batch_) &&
                      height == reserved_height_ && width == reserved_width_;
  if (enough || height == 0 || int64_t{height} * width * batch > most_pixels) return;
  batch_ = 0;  // to be initialised again
  reserves_memory_ = functions.pre_allocate(handle_.handle_, state_, static_cast<int>(batch), width,
                                            height, chroma_444, interleaved_rgb) == nvjpeg_success;
  if (!reserves_memory_) return;
  reserved_batch_ = static_cast<size_t>(batch);
  reserved_height_ = height;
  reserved_width_ = width;
}

std::string Nvjpeg::State::decode(std::span<const Item> items, void* stream) {
  const Functions& functions = handle_.functions_;
  reserve_memory(items);
  if (batch_ != items.size()) {
    batch_ = 0;
    const int status = functions.initialize(handle_.handle_, state_, static_cast<int>(items.size()),
                                            1, interleaved_rgb);
    if (status != nvjpeg_success) return status_text(status);
    batch_ = items.size();
  }
  std::vector<const unsigned char*> files;
  std::vector<size_t> lengths;
  std::vector<Image> targets;
  for (const Item& item : items) {
    files.push_back(item.file.data());
    lengths.push_back(item.file.size());
    targets.push_back({.channel = {item.pixels, nullptr, nullptr, nullptr},
                       .pitch = {static_cast<size_t>(item.pitch), 0, 0, 0}});
  }
  const int status = functions.decode(handle_.handle_, state_, files.data(), lengths.data(),
                                      targets.data(), stream);
  if (status == nvjpeg_success) return "";
  batch_ = 0;
  return status_text(status);
}

}  // namespace whisker
