// One file that a command was asked to write. What stands there already is replaced only where a
// command of ours wrote the same kind of file before, or by --force. Devices and pipes are written
// into. The checks against inputs and other outputs are core/io/outputs.h.
#pragma once

#include "core/io/atomic_file.h"
#include "core/io/file.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace whisker {

/// What a command writes, and how an earlier one of the same kind is recognised.
struct OutputFormat {
  std::string_view name;  ///< for messages: "a heat map of classify --cam"
  /// Whether a file of this content is of this kind, and as it was written: see checksum_mark.h.
  /// Null: nothing is replaced without --force, as for weights.
  bool (*is_own)(std::string_view content) = nullptr;
  /// What such a content holds besides, as the weights that made it.
  std::string_view holds = {};
};

/// What an output replaces.
enum class Replaced : uint8_t { nothing, own, forced };

/// Where a path leads through links.
struct OutputTarget {
  std::filesystem::path path;  ///< without links
  int descriptor = -1;         ///< of this process, as behind /dev/stdout; -1: none
  bool exists = false;
  bool is_stream = false;  ///< a descriptor, device or pipe: written into
  dev_t device = 0;        ///< of what exists
  ino_t inode = 0;
};

/// Follows links; `name` stands for the path in errors. Throws usage for a folder, a socket, a
/// block device, and a link to nothing.
OutputTarget output_target(const std::filesystem::path& path, const std::string& name);

/// Whether a run writes a file of this name there: in a run folder or its last/.
bool is_run_file(const std::filesystem::path& path);

/// Written whole, or not at all: until commit() nothing of the user's has changed.
class OutputFile {
 public:
  /// Creates the temporary file, or opens the device; a pipe is opened by the first write, which
  /// waits for its reader. Throws usage for a file that may not be replaced or a path that cannot
  /// be written, naming it `name` ("export -o: 'x.onnx'"); disk when the disk fails.
  OutputFile(const OutputTarget& target, std::string name, const OutputFormat& format, bool force,
             const FileCalls& calls = system_file_calls());

  /// Appends; throws disk.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Puts the file in its place; throws as AtomicFile::commit(), and usage when a file that may not
  /// be replaced came there in the meantime. Returns what it replaced.
  Replaced commit();
  /// Where it goes, without links.
  const std::filesystem::path& path() const { return target_.path; }
  bool is_stream() const { return target_.is_stream; }

 private:
  Replaced check_replaceable() const;
  void open_stream();

  OutputTarget target_;
  std::string name_;
  OutputFormat format_;
  bool force_;
  const FileCalls& calls_;
  std::unique_ptr<AtomicFile> file_;  // null for a stream
  FileDescriptor stream_;
};

}  // namespace whisker
