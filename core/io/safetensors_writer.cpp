// The writer of safetensors files: sizes are known first, so the header goes out before any tensor.
#include "core/io/json.h"
#include "core/io/safetensors_stream.h"
#include "core/io/text.h"
#include "core/io/utf8.h"

#include <algorithm>
#include <array>
#include <optional>

namespace whisker {
namespace {

void check_text(std::string_view text, std::string_view what, const std::string& file) {
  if (find_invalid_utf8(text) != std::string_view::npos) {
    fail(ErrorKind::usage, "{}: expected {} in UTF-8, got {}.", file, what, excerpt(text));
  }
}

uint64_t byte_count(const SafetensorsEntry& entry, const std::string& file) {
  uint64_t bytes = size_of(entry.dtype);
  for (const uint64_t extent : entry.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      fail(ErrorKind::usage, "{}: tensor {}: the byte count of shape ({}) overflows 64 bits.", file,
           excerpt(entry.name), fmt::join(entry.shape, ","));
    }
  }
  return bytes;
}

std::string make_header(const std::map<std::string, std::string>& metadata,
                        const std::vector<SafetensorsEntry>& entries, const std::string& file) {
  JsonWriter json;
  json.begin_object();
  if (!metadata.empty()) {
    json.key("__metadata__").begin_object();
    for (const auto& [key, value] : metadata) {
      check_text(key, "metadata keys", file);
      check_text(value, "the metadata under " + excerpt(key), file);
      json.field(key, value);
    }
    json.end_object();
  }
  uint64_t position = 0;
  for (const SafetensorsEntry& entry : entries) {
    const uint64_t end = position + byte_count(entry, file);
    json.key(entry.name).begin_object().field("dtype", safetensors_name(entry.dtype));
    json.list("shape", entry.shape).list("data_offsets", std::array{position, end}).end_object();
    position = end;
  }
  json.end_object();
  std::string header = json.str();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

}  // namespace

void write_safetensors(const std::function<void(std::span<const std::byte>)>& write,
                       const std::string& name, const std::map<std::string, std::string>& metadata,
                       std::vector<SafetensorsEntry> entries) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    const size_t a_alignment = size_of(a.dtype), b_alignment = size_of(b.dtype);
    return a_alignment != b_alignment ? a_alignment > b_alignment : a.name < b.name;
  });
  std::vector<std::string_view> names;
  for (const SafetensorsEntry& entry : entries) {
    check_text(entry.name, "tensor names", name);
    names.push_back(entry.name);
  }
  names.push_back("__metadata__");
  std::sort(names.begin(), names.end());
  if (const auto twin = std::adjacent_find(names.begin(), names.end()); twin != names.end()) {
    fail(ErrorKind::usage, "{}: expected every tensor once and none named __metadata__, got {}.",
         name, excerpt(*twin));
  }

  const std::string header = make_header(metadata, entries, name);
  const uint64_t header_bytes = header.size();
  write(std::as_bytes(std::span(&header_bytes, 1)));
  write(std::as_bytes(std::span(header)));
  for (const SafetensorsEntry& entry : entries) {
    const std::span<const std::byte> bytes = entry.bytes();
    if (bytes.size() != byte_count(entry, name)) {
      fail(ErrorKind::usage, "{}: tensor {}: expected {} bytes for {} of shape ({}), got {}.", name,
           excerpt(entry.name), byte_count(entry, name), safetensors_name(entry.dtype),
           fmt::join(entry.shape, ","), bytes.size());
    }
    write(bytes);
  }
}

WrittenFile write_safetensors(const std::filesystem::path& path,
                              const std::map<std::string, std::string>& metadata,
                              std::vector<SafetensorsEntry> entries, const FileCalls& calls) {
  std::optional<AtomicFile> file;  // made once the header is known to be right
  write_safetensors(
      [&](std::span<const std::byte> bytes) {
        if (!file) file.emplace(path, calls);
        file->write(bytes);
      },
      path.string(), metadata, std::move(entries));
  file->commit();
  return {file->size(), file->hash().value()};
}

}  // namespace whisker
