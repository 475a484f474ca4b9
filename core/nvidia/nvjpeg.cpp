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

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

Library open_first(std::span<const std::string> names) {
  std::string reason;
  for (const std::string& name : names) {
    if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return Library(library);
    reason += fmt::format("{}{}", reason.empty() ? "" : "; ", dlerror());
  }
  fail(ErrorKind::device,
       "nvJPEG cannot be opened ({}). It is part of the CUDA toolkit: install it, or name its "
       "folder in LD_LIBRARY_PATH.",
       reason);
}

// A function of the library, as a pointer of whatever type it is assigned to.
struct Symbol {
  void* address;
  template <class Function>
  operator Function*() const {
    return reinterpret_cast<Function*>(address);
  }
};

}  // namespace

struct Nvjpeg::Functions {
  Library library;

  Symbol find(const char* name) const {
    if (void* const address = dlsym(library.get(), name)) return {address};
    fail(ErrorKind::device, "nvJPEG lacks {}: the library is too old. Install a newer one.", name);
  }
  int (*get_property)(int property, int* value) = find("nvjpegGetProperty");
  int (*create)(int backend, void* device_allocator, void* pinned_allocator, unsigned flags,
                void** handle) = find("nvjpegCreateEx");
  int (*destroy)(void* handle) = find("nvjpegDestroy");
  int (*create_state)(void* handle, void** state) = find("nvjpegJpegStateCreate");
  int (*destroy_state)(void* state) = find("nvjpegJpegStateDestroy");
  int (*create_stream)(void* handle, void** stream) = find("nvjpegJpegStreamCreate");
  int (*destroy_stream)(void* stream) = find("nvjpegJpegStreamDestroy");
  int (*parse_header)(void* handle, const unsigned char* data, size_t length,
                      void* stream) = find("nvjpegJpegStreamParseHeader");
  int (*supported)(void* handle, void* stream, int* unsupported) =  // 0: it is
      find("nvjpegDecodeBatchedSupported");
  int (*initialize)(void* handle, void* state, int batch, int threads,
                    int format) = find("nvjpegDecodeBatchedInitialize");
  int (*decode)(void* handle, void* state, const unsigned char* const* data, const size_t* lengths,
                Image* targets, void* stream) = find("nvjpegDecodeBatched");
  int (*pre_allocate)(void* handle, void* state, int batch, int width, int height, int chroma,
                      int format) = find("nvjpegDecodeBatchedPreAllocate");
};

Nvjpeg::Nvjpeg(std::span<const std::string> names)
    : functions_(new Functions{.library = open_first(names)}) {
  int status = nvjpeg_success;
  for (const int backend : {hardware_engine, gpu_hybrid}) {
    for (const unsigned flags : {interpolate_chroma, 0u}) {  // older libraries do not know the flag
      status = functions_->create(backend, nullptr, nullptr, flags, &handle_);
      if (status != nvjpeg_success) continue;
      hardware_ = backend == hardware_engine;
      return;
    }
  }
  fail(ErrorKind::device, "nvJPEG {} does not start: {}.", version(), status_text(status));
}

Nvjpeg::Nvjpeg() : Nvjpeg(std::array<std::string, 2>{"libnvjpeg.so.13", "libnvjpeg.so.12"}) {}

Nvjpeg::~Nvjpeg() {
  if (!abandoned_) functions_->destroy(handle_);
}

std::string Nvjpeg::version() const {
  int major = 0, minor = 0;
  functions_->get_property(0, &major);
  functions_->get_property(1, &minor);
  return fmt::format("{}.{}", major, minor);
}

bool Nvjpeg::accepts(std::span<const uint8_t> file) const {
  if (!hardware_) return true;  // takes whatever is plain
  void* stream = nullptr;
  if (functions_->create_stream(handle_, &stream) != nvjpeg_success) return false;
  int unsupported = 1;
  const bool parsed =
      functions_->parse_header(handle_, file.data(), file.size(), stream) == nvjpeg_success &&
      functions_->supported(handle_, stream, &unsupported) == nvjpeg_success;
  functions_->destroy_stream(stream);
  return parsed && unsupported == 0;
}

Nvjpeg::State::State(const Nvjpeg& library) : library_(library) {
  const int status = library_.functions_->create_state(library_.handle_, &state_);
  if (status != nvjpeg_success) {
    fail(ErrorKind::device, "nvJPEG: cannot allocate memory to decode: {}.", status_text(status));
  }
}

Nvjpeg::State::~State() {
  if (!library_.abandoned_) library_.functions_->destroy_state(state_);
}

// When an image does not fit, the library frees its memory and allocates more, which waits for all
// work of the GPU, again and again with images of all sizes. So each slot of a batch reserves
// memory for the image with the most pixels, up to a total limit. If that fails, or above the
// limit, the library allocates as needed.
void Nvjpeg::State::reserve_memory(std::span<const Item> items) {
  constexpr int step = 128;                          // pixels
  constexpr int64_t most_pixels = int64_t{1} << 28;  // of a batch, 3 bytes each
  constexpr int chroma_444 = 0;
  if (!library_.hardware_) return;
  Size wanted = reserved_;
  wanted.batch = std::max(wanted.batch, static_cast<int>(items.size()));
  for (const Item& item : items) {
    const Size size{.batch = wanted.batch,
                    .height = (item.height + step - 1) / step * step,
                    .width = (item.width + step - 1) / step * step};
    if (size.pixels() * size.batch <= most_pixels && size.pixels() > wanted.pixels()) wanted = size;
  }
  const int64_t pixels = wanted.pixels() * wanted.batch;
  if (wanted == reserved_ || pixels == 0 || pixels > most_pixels) return;
  batch_ = 0;  // to be initialised again
  reserved_ = wanted;
  library_.functions_->pre_allocate(library_.handle_, state_, wanted.batch, wanted.width,
                                    wanted.height, chroma_444, interleaved_rgb);
}

std::string Nvjpeg::State::decode(std::span<const Item> items, void* stream) {
  const Functions& functions = *library_.functions_;
  reserve_memory(items);
  if (batch_ != items.size()) {
    batch_ = 0;
    const int status = functions.initialize(library_.handle_, state_,
                                            static_cast<int>(items.size()), 1, interleaved_rgb);
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
  const int status = functions.decode(library_.handle_, state_, files.data(), lengths.data(),
                                      targets.data(), stream);
  if (status == nvjpeg_success) return "";
  batch_ = 0;
  return status_text(status);
}

}  // namespace whisker
