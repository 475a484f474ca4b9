// Layout checks of the reader; the writer is in safetensors_writer.cpp, the JSON in
// safetensors_header.cpp. See Note [Safetensors verdict].
#include "core/io/safetensors.h"

#include "core/io/foreign_weights.h"
#include "core/io/safetensors_header.h"
#include "core/io/text.h"
#include "core/io/torch_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <utility>

namespace whisker {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are used as they lie on disk");

constexpr uint64_t max_header_bytes = 100'000'000;  // the Python package's own limit
constexpr std::array<std::pair<DType, std::string_view>, 8> dtype_names = {{
    {DType::f64, "F64"},
    {DType::f32, "F32"},
    {DType::f16, "F16"},
    {DType::bf16, "BF16"},
    {DType::i64, "I64"},
    {DType::i32, "I32"},
    {DType::u8, "U8"},
    {DType::boolean, "BOOL"},
}};

// Refuses pickles as a run's own files: torch.save never writes those. open_weights() reads them.
void refuse_pickles(std::string_view content, const std::string& file) {
  const WeightsFormat format = weights_format(content);
  if (format == WeightsFormat::safetensors) return;
  fail(ErrorKind::checkpoint,
       "{}: expected a safetensors file, got a {} as torch.save writes. Convert it: whisker import "
       "FILE -o weights.safetensors.",
       file, format == WeightsFormat::torch_zip ? "zip archive" : "pickle");
}

// shape x element size, or nothing on overflow. As in the Python package, the element count in bits
// must fit too, and [2^40, 2^40, 0] overflows although its product is 0.
std::optional<uint64_t> byte_count(std::span<const uint64_t> shape, DType dtype) {
  uint64_t count = 1;
  for (const uint64_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count)) return std::nullopt;
  }
  uint64_t bits = 0;
  if (__builtin_mul_overflow(count, uint64_t{8} * size_of(dtype), &bits)) return std::nullopt;
  return bits / 8;
}

// Every byte belongs to exactly one tensor: sorted by offsets, each begins where the last one
// ended.
void check_layout(const std::vector<SafetensorsRecord>& records, uint64_t data_bytes,
                  const std::string& file) {
  std::vector<const SafetensorsRecord*> order;
  order.reserve(records.size());
  for (const SafetensorsRecord& record : records) order.push_back(&record);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint64_t position = 0;
  for (const SafetensorsRecord* record : order) {
    const std::string name = excerpt(record->name);
    const std::optional<uint64_t> expected = byte_count(record->shape, record->dtype);
    if (!expected) {
      fail(ErrorKind::checkpoint, "{}: tensor {}: the byte count of shape ({}) overflows 64 bits.",
           file, name, fmt::join(record->shape, ","));
    }
    if (record->end < record->begin || record->end - record->begin != *expected) {
      fail(ErrorKind::checkpoint,
           "{}: tensor {}: expected {} bytes for {} of shape ({}), got data_offsets [{}, {}].",
           file, name, *expected, safetensors_name(record->dtype), fmt::join(record->shape, ","),
           record->begin, record->end);
    }
    if (record->begin != position) {
      fail(ErrorKind::checkpoint,
           "{}: tensor {}: expected to begin at byte {}, where the one before it ends, got {}: "
           "tensors {}.",
           file, name, position, record->begin,
           record->begin < position ? "overlap" : "leave a hole");
    }
    position = record->end;
  }
  if (position != data_bytes) {
    fail(ErrorKind::checkpoint,
         "{}: the file is {}: expected {} bytes of tensors, got {}. Download or copy it again.",
         file, position > data_bytes ? "cut short" : "too long", position, data_bytes);
  }
}

}  // namespace

std::string_view safetensors_name(DType dtype) {
  for (const auto& [ours, name] : dtype_names) {
    if (ours == dtype) return name;
  }
  fail(ErrorKind::internal, "safetensors: dtype {} has no name in the format", dtype);
}

std::optional<DType> safetensors_dtype(std::string_view name) {
  for (const auto& [ours, theirs] : dtype_names) {
    if (theirs == name) return ours;
  }
  return std::nullopt;
}

bool all_finite(DType dtype, std::span<const std::byte> bytes) {
  if (!is_floating(dtype)) return true;
  return visit(dtype, [&]<class T>() {
    constexpr uint32_t exponent = 0x7f80'0000;  // all of its bits are set in f32's NaN and Inf only
    uint32_t found = 0;                         // no early exit, so that the loop is vector code
    for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
      T value;
      std::memcpy(&value, bytes.data() + at, sizeof(T));
      found |= (std::bit_cast<uint32_t>(static_cast<float>(value)) & exponent) == exponent;
    }
    return found == 0;
  });
}

void check_finite(const SafetensorsFile& file, const SafetensorsTensor& tensor) {
  if (all_finite(tensor.dtype, tensor.bytes)) return;
  fail(ErrorKind::checkpoint,
       "{}: tensor {}: expected values that are finite in f32, got NaN or Inf. The training "
       "diverged or the file was damaged: use an earlier or another one.",
       file.name(), excerpt(tensor.name));
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  MappedFile mapping(path, ErrorKind::checkpoint);
  SafetensorsFile file = parse(mapping.bytes(), path.string());
  file.mapping_.emplace(std::move(mapping));
  return file;
}

SafetensorsFile SafetensorsFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  SafetensorsFile file;
  file.name_ = name;
  file.read(bytes);
  return file;
}

SafetensorsFile SafetensorsFile::of(const std::string& name, std::vector<SafetensorsTensor> tensors,
                                    std::vector<std::vector<std::byte>> copies,
                                    std::map<std::string, std::string> metadata) {
  SafetensorsFile file;
  file.name_ = name;
  file.metadata_ = std::move(metadata);
  file.tensors_ = std::move(tensors);
  file.copies_ = std::move(copies);
  std::ranges::sort(file.tensors_, {}, &SafetensorsTensor::name);
  return file;
}

void SafetensorsFile::read(std::span<const std::byte> bytes) {
  const std::string_view content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  refuse_pickles(content, name_);
  refuse_foreign_weights(content, name_);
  if (bytes.size() < 8) {
    fail(ErrorKind::checkpoint, "{}: expected a safetensors file of at least 8 bytes, got {}.",
         name_, bytes.size());
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  if (header_bytes > max_header_bytes) {
    fail(ErrorKind::checkpoint,
         "{}: not a safetensors file: its header would have {} bytes, at most {} are allowed.",
         name_, header_bytes, max_header_bytes);
  }
  if (header_bytes > bytes.size() - 8) {
    fail(ErrorKind::checkpoint,
         "{}: truncated or not a safetensors file: expected a header of {} bytes, the file has {} "
         "after its first 8.",
         name_, header_bytes, bytes.size() - 8);
  }
  const std::string_view json = content.substr(8, header_bytes);
  if (!json.starts_with('{')) {
    fail(ErrorKind::checkpoint, "{}: not a safetensors file: its header does not begin with '{{'.",
         name_);
  }
  SafetensorsHeader header = read_safetensors_header(json, name_);
  std::vector<SafetensorsRecord>& records = header.records;
  std::sort(records.begin(), records.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twin =
      std::adjacent_find(records.begin(), records.end(),
                         [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twin != records.end()) {
    fail(ErrorKind::checkpoint, "{}: expected every tensor once, got {} twice.", name_,
         excerpt(twin->name));
  }
  const std::span<const std::byte> data = bytes.subspan(8 + header_bytes);
  check_layout(records, data.size(), name_);

  metadata_ = std::move(header.metadata);
  tensors_.reserve(records.size());
  for (SafetensorsRecord& record : records) {
    tensors_.push_back({std::move(record.name), record.dtype, std::move(record.shape),
                        data.subspan(record.begin, record.end - record.begin)});
  }
}

void SafetensorsFile::select(std::string_view prefix) {
  std::vector<SafetensorsTensor> kept;
  for (SafetensorsTensor& tensor : tensors_) {
    const bool begins = tensor.name.starts_with(prefix) && tensor.name.size() > prefix.size() + 1 &&
                        tensor.name[prefix.size()] == '.';
    if (!begins) continue;
    tensor.name.erase(0, prefix.size() + 1);
    kept.push_back(std::move(tensor));
  }
  if (kept.empty()) {
    fail(ErrorKind::usage,
         "{}: --weights-key: expected the words before a dot in tensors' names, got {}, with which "
         "none begins.",
         name_, excerpt(prefix));
  }
  if (kept.size() < tensors_.size()) {
    notes_.push_back(fmt::format("{}: {} tensors of {} are read; left out: {} others",
                                 printable(name_), kept.size(), excerpt(prefix),
                                 tensors_.size() - kept.size()));
  }
  tensors_ = std::move(kept);
}

void SafetensorsFile::describe(std::map<std::string, std::string> metadata) {
  metadata.merge(metadata_);
  metadata_ = std::move(metadata);
}

void SafetensorsFile::replace_tensors(std::vector<SafetensorsTensor> tensors,
                                      std::vector<std::vector<std::byte>> copies) {
  tensors_ = std::move(tensors);
  std::ranges::move(copies, std::back_inserter(copies_));
  std::ranges::sort(tensors_, {}, &SafetensorsTensor::name);
}

void SafetensorsFile::add_notes(std::vector<std::string> notes) {
  for (std::string& note : notes) notes_.push_back(std::move(note));
}

const SafetensorsTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                      [](const auto& t, std::string_view n) { return t.name < n; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

}  // namespace whisker
