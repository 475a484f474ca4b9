// Files of torch.save for tests: samples that tests/support/torch_files.py wrote, and streams of
// hand-made pickles.
#pragma once

#include "core/io/torch_file.h"
#include "scratch.h"
#include "tests/support/error_of.h"

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

inline std::string torch_sample(const std::string& name) {
  return content_of(WHISKER_SOURCE_DIR "/tests/fuzz/corpus/torch_file/" + name);
}

inline SafetensorsFile read_torch(const std::string& content, const std::string& key = "") {
  return parse_torch_file(std::as_bytes(std::span(content)), "w.pth", key);
}

inline std::string torch_refusal(const std::string& content, const std::string& key = "",
                                 ErrorKind kind = ErrorKind::checkpoint) {
  return test::message_of(kind, [&] { read_torch(content, key); });
}

template <class T>
std::vector<T> values_of(const SafetensorsFile& file, std::string_view name) {
  const SafetensorsTensor* tensor = file.find(name);
  if (!tensor) return {};
  std::vector<T> values(tensor->bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
  return values;
}

inline std::string pickle_of(const std::string& opcodes) {
  return std::string("\x80\x02", 2) + opcodes + ".";
}

// A file of before PyTorch 1.6 with these values and, unless it is `bare`, one storage "0" of four
// floats.
inline std::string old_file(const std::string& opcodes, bool bare = false) {
  std::string file = pickle_of(std::string("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 12));
  file += pickle_of(std::string("M\xe9\x03", 3)) + pickle_of("}") + pickle_of(opcodes);
  if (bare) return file + pickle_of("]");
  file +=
      pickle_of(std::string("](X\x01\0\0\0"
                            "0e",
                            9));
  return file + std::string("\x04\0\0\0\0\0\0\0", 8) + std::string(16, '\0');
}

}  // namespace whisker
