// A recorded step as JSON, and as a safetensors file: JSON in the metadata, values as tensors.
// docs/reference/formats.md describes the file.
#pragma once

#include "core/io/safetensors.h"
#include "core/trace/recording.h"

#include <map>
#include <string>
#include <vector>

namespace whisker {

/// One JSON object without values.
std::string recording_json(const Recording& recording);

/// What write_safetensors() writes for a recording; `recording` outlives the entries.
struct RecordingFile {
  std::map<std::string, std::string> metadata;
  std::vector<SafetensorsEntry> entries;

  static RecordingFile of(const Recording& recording);
};

/// Throws checkpoint, naming the file, where its metadata do not say that it is a recording.
void check_is_recording(const SafetensorsFile& file);

/// The recording in a file; throws checkpoint, naming the file and the place, for anything that
/// RecordingFile::of() does not make.
Recording read_recording(const SafetensorsFile& file);

}  // namespace whisker
