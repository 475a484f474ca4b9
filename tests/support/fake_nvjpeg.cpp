// Stands in for libnvjpeg: a "file" of n bytes gives n pixels' worth of its first byte, the rows
// `pitch` apart. What it can do and where it fails is in WHISKER_FAKE_NVJPEG, one letter each:
// e no JPEG engine, f flags unknown, s does not start, r refuses files that begin with 'r',
// d decoding fails once, i the next initialisation fails, p no memory can be allocated.
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int success = 0, invalid_parameter = 2, bad_jpeg = 3, execution_failed = 6,
              arch_mismatch = 7, internal_error = 8;
constexpr int hardware_engine = 3;
constexpr int interleaved_rgb = 5;

bool told(char letter) {
  const char* text = std::getenv("WHISKER_FAKE_NVJPEG");
  return text && std::strchr(text, letter);
}
void forget(char letter) {
  std::string text = std::getenv("WHISKER_FAKE_NVJPEG");
  text.erase(text.find(letter), 1);
  setenv("WHISKER_FAKE_NVJPEG", text.c_str(), 1);
}

int alive = 0;  // handles, states and streams
int capacity_batch = 0, capacity_width = 0, capacity_height = 0;

struct Handle {
  int backend;
  unsigned flags;
};
struct State {
  int batch = 0;
};
struct Stream {
  unsigned char first = 0;
};

}  // namespace

extern "C" {

struct FakeImage {
  unsigned char* channel[4];
  size_t pitch[4];
};

int fake_nvjpeg_alive() {
  return alive;
}
int nvjpegGetProperty(int property, int* value) {
  *value = property == 0 ? 13 : 7;
  return success;
}
int nvjpegCreateEx(int backend, void* device, void* pinned, unsigned flags, Handle** handle) {
  if (device || pinned) return invalid_parameter;
  if (told('s')) return internal_error;
  if (backend == hardware_engine && told('e')) return arch_mismatch;
  if (flags != 0 && told('f')) return invalid_parameter;
  *handle = new Handle{backend, flags};
  ++alive;
  return success;
}
int nvjpegDestroy(Handle* handle) {
  delete handle;
  --alive;
  return success;
}
int nvjpegJpegStateCreate(Handle*, State** state) {
  *state = new State;
  ++alive;
  return success;
}
int nvjpegJpegStateDestroy(State* state) {
  delete state;
  --alive;
  return success;
}
int nvjpegJpegStreamCreate(Handle*, Stream** stream) {
  *stream = new Stream;
  ++alive;
  return success;
}
int nvjpegJpegStreamDestroy(Stream* stream) {
  delete stream;
  --alive;
  return success;
}
int nvjpegJpegStreamParseHeader(Handle*, const unsigned char* data, size_t length, Stream* stream) {
  if (length == 0) return bad_jpeg;
  stream->first = data[0];
  return success;
}
int nvjpegDecodeBatchedSupported(Handle* handle, Stream* stream, int* unsupported) {
  if (handle->backend != hardware_engine) return internal_error;
  *unsupported = told('r') && stream->first == 'r' ? 1 : 0;
  return success;
}
int nvjpegDecodeBatchedInitialize(Handle*, State* state, int batch, int threads, int format) {
  if (told('i')) {
    forget('i');
    return internal_error;
  }
  if (threads != 1 || format != interleaved_rgb) return invalid_parameter;
  state->batch = batch;
  return success;
}
int fake_nvjpeg_capacity(int which) {
  return which == 0 ? capacity_batch : which == 1 ? capacity_height : capacity_width;
}
int nvjpegDecodeBatchedPreAllocate(Handle*, State* state, int batch, int width, int height,
                                   int chroma, int format) {
  if (chroma != 0 || format != interleaved_rgb) return invalid_parameter;
  state->batch = -1;
  if (told('p')) return execution_failed;
  capacity_batch = batch;
  capacity_width = width;
  capacity_height = height;
  return success;
}
int nvjpegDecodeBatched(Handle*, State* state, const unsigned char* const* data,
                        const size_t* lengths, FakeImage* targets, void*) {
  if (told('d')) {
    forget('d');
    state->batch = -1;  // to be initialised again
    return execution_failed;
  }
  if (state->batch < 1) return invalid_parameter;
  for (int i = 0; i < state->batch; ++i) {
    unsigned char* row = targets[i].channel[0];
    for (size_t pixel = 0; pixel < lengths[i]; ++pixel, row += targets[i].pitch[0]) {
      std::memset(row, data[i][0], 3);
    }
  }
  return success;
}
}
