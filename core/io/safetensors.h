// Weights files in the safetensors format: u64 little-endian header length N, N bytes of JSON, then
// the tensors' bytes. Docs: https://huggingface.co/docs/safetensors (format section).
//
// Note [Safetensors verdict]: the reader never accepts what Python's safetensors 0.8 refuses. It is
// stricter for: duplicate names; dtypes that Whisker lacks; a header that does not begin with '{';
// tensors described by an array, or a dtype by an object (serde reads both, no writer makes them);
// over 65,536 names, 64 axes or 16 MiB in one text. So reading takes at most twice the file's size
// and 64 MiB, whatever the header says.
#pragma once

#include "core/io/atomic_file.h"
#include "core/io/file.h"
#include "core/tensor/dtype.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace whisker {

/// One stored tensor. `bytes` is row-major little-endian, points into the file and may be
/// unaligned.
struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<uint64_t> shape;  // extents may exceed int64 where another extent is 0
  std::span<const std::byte> bytes;
};

/// The tensors and metadata of a weights file, checked: of a safetensors file over its mapped or
/// borrowed bytes, or of another format whose reader found them (of()).
class SafetensorsFile {
 public:
  /// Maps `path`. Throws checkpoint naming the file and the tensor for anything but a valid file.
  /// open_weights() (core/io/torch_file.h) opens files of PyTorch's own formats as well.
  static SafetensorsFile open(const std::filesystem::path& path);
  /// Same over `bytes`, which must outlive the result; `name` stands for the file in errors.
  static SafetensorsFile parse(std::span<const std::byte> bytes, const std::string& name);

  /// Tensors of distinct names that another reader found, over bytes that outlive the result or
  /// that `copies` hold.
  static SafetensorsFile of(const std::string& name, std::vector<SafetensorsTensor> tensors,
                            std::vector<std::vector<std::byte>> copies = {},
                            std::map<std::string, std::string> metadata = {});
  /// Keeps the tensors whose names begin with `prefix` and a dot, which they lose. Throws usage
  /// where there are none.
  void select(std::string_view prefix);
  void add_notes(std::vector<std::string> notes);
  /// `by` is what says so, for messages.
  void set_network(std::string name, std::string library = "", std::string by = "its checkpoint") {
    network_ = std::move(name);
    library_ = std::move(library);
    network_by_ = std::move(by);
  }
  /// Adds metadata that stand elsewhere, in place of its own under the same keys.
  void describe(std::map<std::string, std::string> metadata);
  /// Other tensors in place of its own, over the file's bytes or over those that `copies` hold.
  void replace_tensors(std::vector<SafetensorsTensor> tensors,
                       std::vector<std::vector<std::byte>> copies);
  /// Keeps what the tensors' bytes point into.
  void hold(MappedFile mapping) { mapping_.emplace(std::move(mapping)); }

  const std::string& name() const { return name_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// All tensors, sorted by name.
  const std::vector<SafetensorsTensor>& tensors() const { return tensors_; }
  /// What a checkpoint of another format, or a file beside this one, calls the network; "" where
  /// neither says it.
  const std::string& network() const { return network_; }
  /// What says network().
  const std::string& network_by() const { return network_by_; }
  /// "timm" or "torchvision", where a checkpoint shows whose network it is; else "".
  const std::string& library() const { return library_; }
  /// Messages for the user: what of the file was chosen, and what was left out.
  const std::vector<std::string>& notes() const { return notes_; }
  /// nullptr when there is no tensor of that name.
  const SafetensorsTensor* find(std::string_view name) const;

 private:
  SafetensorsFile() = default;
  void read(std::span<const std::byte> bytes);

  std::string name_;
  std::optional<MappedFile> mapping_;
  std::map<std::string, std::string> metadata_;
  std::vector<SafetensorsTensor> tensors_;
  std::vector<std::vector<std::byte>> copies_;
  std::vector<std::string> notes_;
  std::string network_, library_, network_by_;
};

/// One tensor to write. `bytes` is called once, when its turn comes, and its result is used before
/// the next call, so one scratch buffer can serve all tensors that need converting.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::f32;
  std::vector<uint64_t> shape;
  std::function<std::span<const std::byte>()> bytes;
};

/// Whether no value is NaN, Inf, or a double beyond f32's range. Other types than floating ones
/// are finite.
bool all_finite(DType dtype, std::span<const std::byte> bytes);
/// Throws checkpoint naming the tensor of `file` unless its values are all_finite.
void check_finite(const SafetensorsFile& file, const SafetensorsTensor& tensor);

/// Size and XXH64 of a written file, as state.json keeps them.
struct WrittenFile {
  uint64_t bytes = 0;
  uint64_t hash = 0;
};

/// Writes the file atomically (see Note [Order on disk]): entries by descending alignment, then
/// name; header padded with spaces to 8 bytes. Throws usage for duplicate, reserved or non-UTF-8
/// names and for bytes that do not match the shape, disk when writing fails.
WrittenFile write_safetensors(const std::filesystem::path& path,
                              const std::map<std::string, std::string>& metadata,
                              std::vector<SafetensorsEntry> entries,
                              const FileCalls& calls = system_file_calls());

/// "F32" and so on: the format's name of a dtype.
std::string_view safetensors_name(DType dtype);
/// The dtype of a name in the format; nullopt for names that Whisker lacks.
std::optional<DType> safetensors_dtype(std::string_view name);

}  // namespace whisker
