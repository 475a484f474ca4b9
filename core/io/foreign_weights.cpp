#include "core/io/foreign_weights.h"

#include "core/error.h"
#include "core/io/lower_ascii.h"
#include "core/io/text.h"
#include "core/io/zip.h"

#include <algorithm>
#include <array>

namespace whisker {
namespace {

constexpr std::string_view spaces = " \t\n\f\r";

constexpr const char* from_keras =
    "Save its arrays under the names and in the axis order of docs/reference/formats.md: "
    "safetensors.numpy.save_file({name: array}, 'weights.safetensors'), or train with Whisker.";
constexpr const char* from_arrays =
    "Save its arrays under PyTorch's names: safetensors.numpy.save_file({name: array}, "
    "'weights.safetensors').";
constexpr const char* from_onnx =
    "Use the weights that it was exported from, or save its initializers under PyTorch's names: "
    "safetensors.numpy.save_file({name: array}, 'weights.safetensors').";
constexpr const char* from_script =
    "Save its weights in Python: torch.save(torch.jit.load(FILE).state_dict(), 'weights.pth').";
constexpr const char* from_program =
    "Save its weights in Python: torch.save(torch.export.load(FILE).state_dict, 'weights.pth').";
constexpr const char* from_tensorflow =
    "Save its variables under PyTorch's names: safetensors.numpy.save_file({name: array}, "
    "'weights.safetensors').";
constexpr const char* unpack = "Unpack it and use the file of weights in it.";

[[noreturn]] void refuse(const std::string& file, std::string_view what, std::string_view remedy) {
  fail(ErrorKind::checkpoint,
       "{}: expected a safetensors file or a zip file of torch.save, got {}. {}", file, what,
       remedy);
}

struct Signature {
  std::string_view bytes;
  size_t at;
  std::string_view what;
  std::string_view remedy;
};
constexpr Signature signatures[] = {
    {"TFL3", 4, "a TensorFlow Lite network", from_tensorflow},
    {"GGUF", 0, "a GGUF file", from_arrays},
    {"\x93NUMPY", 0, "a NumPy array (.npy)", from_arrays},
    {"MATLAB 5.0 MAT-file", 0, "a MATLAB file", from_arrays},
    {"\x1f\x8b", 0, "a gzip archive", unpack},
    {"\xfd"
     "7zXZ",
     0, "an xz archive", unpack},
    {"BZh", 0, "a bzip2 archive", unpack},
    {"\x28\xb5\x2f\xfd", 0, "a Zstandard archive", unpack},
    {"7z\xbc\xaf\x27\x1c", 0, "a 7z archive", unpack},
    {"Rar!\x1a\x07", 0, "a RAR archive", unpack},
    {"ustar", 257, "a tar archive", unpack},
};

bool has(std::string_view content, const Signature& signature) {
  return content.size() > signature.at && content.substr(signature.at).starts_with(signature.bytes);
}

// HDF5's signature stands at 0, or behind a user block of 512 bytes or a multiple by a power of 2.
bool is_hdf5(std::string_view content) {
  constexpr std::string_view signature("\x89HDF\r\n\x1a\n", 8);
  for (size_t at = 0; at < content.size() && at <= 1 << 16; at = at == 0 ? 512 : 2 * at) {
    if (content.substr(at).starts_with(signature)) return true;
  }
  return false;
}

// Attributes and groups that Keras writes.
bool is_of_keras(std::string_view content) {
  constexpr size_t most = 1 << 20;  // of each end: HDF5 puts them before or behind the arrays
  const std::string_view begin = content.substr(0, most);
  const std::string_view end = content.substr(content.size() - std::min(content.size(), most));
  constexpr std::array<std::string_view, 4> words = {"keras_version", "layer_names", "model_config",
                                                     "_layer_checkpoint_dependencies"};
  return std::ranges::any_of(words, [&](std::string_view word) {
    return begin.find(word) != begin.npos || end.find(word) != end.npos;
  });
}

// A ModelProto begins with its version (field 1, a small number), then the producer's name or
// another of its first fields. protobuf of another message may, too; its bytes are not ONNX's text.
bool is_onnx(std::string_view content) {
  if (content.size() < 16 || content[0] != '\x08' || content[1] <= 0 || content[1] > 64) {
    return false;
  }
  constexpr std::string_view fields = "\x12\x1a\x22\x28\x32\x3a\x42";
  if (fields.find(content[2]) == fields.npos) return false;
  const std::string_view head = content.substr(0, 1 << 16);
  const auto count = [&](char c) { return std::ranges::count(head.substr(0, 64), c); };
  // The producer's name is text of the length that is said; a graph comes with nodes.
  if (content[2] == '\x12') {
    const auto bytes = static_cast<uint8_t>(content[3]);
    const std::string_view name = content.substr(4, bytes);
    return name.size() == bytes && bytes < 128 &&
           std::ranges::all_of(name, [](char c) { return c >= ' ' && c < '\x7f'; });
  }
  return count('\0') < 48 && head.find('\x0a') != head.npos;
}

// The beginning of a file without control characters, from its first word on; nothing for others.
// No weights are text: bytes 4 to 7 of a safetensors file are 0.
std::string_view text_of(std::string_view content) {
  std::string_view head = content.substr(0, 1024);
  const bool binary = std::ranges::any_of(head, [](char c) {
    return c == '\x7f' || (static_cast<uint8_t>(c) < ' ' && spaces.find(c) == spaces.npos);
  });
  if (binary) return {};
  if (head.starts_with("\xef\xbb\xbf")) head.remove_prefix(3);  // a byte order mark
  return head.substr(std::min(head.find_first_not_of(spaces), head.size()));
}

// What a failed download leaves in place of weights.
void refuse_texts(std::string_view content, const std::string& file) {
  if (content.empty()) refuse(file, "an empty file", "Download or copy it again.");
  const std::string_view text = text_of(content);
  if (text.empty()) return;
  const std::string lower = lower_ascii(text);
  const char* what = "a text file";
  const char* remedy = "Download or copy the weights again.";
  if (lower.find("<!doctype html") != lower.npos || lower.find("<html") != lower.npos) {
    what = "a web page (HTML)";
    remedy = "Download the weights again, from a link to the file itself.";
  } else if (text.starts_with("version https://git-lfs.github.com/spec/")) {
    what = "a Git LFS pointer";
    remedy = "Download the weights that it stands for: git lfs pull.";
  }
  refuse(file, fmt::format("{} that begins with {}", what, excerpt(text)), remedy);
}

bool any_entry(const ZipArchive& archive, std::string_view end) {
  return std::ranges::any_of(archive.entries(), [&](const ZipArchive::Entry& entry) {
    return entry.name == end ||
           (entry.name.ends_with(end) && entry.name[entry.name.size() - end.size() - 1] == '/');
  });
}

}  // namespace

void refuse_foreign_weights(std::string_view content, const std::string& file) {
  const auto* const known = std::ranges::find_if(
      signatures, [&](const Signature& signature) { return has(content, signature); });
  // A safetensors file begins with a length, whose bytes may be any; byte 8 is a '{'.
  if (content.size() > 8 && content[8] == '{' &&
      content.substr(4, 4) == std::string_view("\0\0\0\0", 4)) {
    return;
  }
  if (known != std::end(signatures)) refuse(file, known->what, known->remedy);
  if (is_hdf5(content)) {
    const bool keras = is_of_keras(content);
    refuse(file, keras ? "a Keras network or its weights (HDF5, .h5)" : "an HDF5 file",
           keras ? from_keras : from_arrays);
  }
  if (is_onnx(content)) refuse(file, "an ONNX network", from_onnx);
  refuse_texts(content, file);
}

void refuse_foreign_archive(const ZipArchive& archive, const std::string& file) {
  const auto& entries = archive.entries();
  if (any_entry(archive, "constants.pkl")) {
    refuse(file, "a TorchScript program (torch.jit.save)", from_script);
  }
  if (any_entry(archive, "data.pkl")) return;
  if (any_entry(archive, "model.weights.h5")) refuse(file, "a Keras network (.keras)", from_keras);
  if (any_entry(archive, "archive_format") ||
      any_entry(archive, "serialized_exported_program.json")) {
    refuse(file, "a program of torch.export (.pt2)", from_program);
  }
  const auto is_array = [](const ZipArchive::Entry& entry) { return entry.name.ends_with(".npy"); };
  if (!entries.empty() && std::ranges::all_of(entries, is_array)) {
    refuse(file, "NumPy arrays (.npz)", from_arrays);
  }
  refuse(file,
         entries.empty() ? std::string("an empty zip archive")
                         : fmt::format("a zip archive that torch.save did not write, of {} and "
                                       "{} more entries",
                                       excerpt(entries[0].name), entries.size() - 1),
         unpack);
}

}  // namespace whisker
