// From the pickle and its storages to tensors.
#include "core/io/torch_file.h"

#include "core/io/json.h"
#include "core/io/memory_budget.h"
#include "core/io/text.h"
#include "core/io/torch_checkpoint.h"
#include "core/io/torch_contents.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace whisker {
namespace {

using Bytes = std::span<const std::byte>;

// A TorchView with its numbers.
struct View {
  uint64_t offset = 0;
  std::vector<uint64_t> shape, strides;
};
View view_of(const TorchPickle& pickle, const TorchView& view) {
  View result{.offset = view.offset, .shape = {}, .strides = {}};
  for (const auto& [from, to] :
       {std::pair(view.shape, &result.shape), std::pair(view.strides, &result.strides)}) {
    for (const uint32_t extent : pickle.items_of(from)) {
      to->push_back(static_cast<uint64_t>(pickle.values[extent].integer));
    }
  }
  return result;
}

// Copies of tensors that are not stored in the order of their axes.
class Copies {
 public:
  Copies(size_t file_bytes, MemoryBudget& budget, const std::string& file)
      : left_(2 * file_bytes + (1 << 20)), budget_(budget), file_(file) {}

  /// Views of one storage may be many more bytes than the file.
  void charge(uint64_t count, size_t element) {
    if (count > left_ / element) {
      fail(ErrorKind::checkpoint,
           "{}: its tensors are more than twice as large as the file. Save copies of them: "
           "tensor.contiguous().",
           file_);
    }
    left_ -= count * element;
  }
  std::span<std::byte> copy(const View& view, size_t element, Bytes storage, uint64_t count) {
    charge(count, element);
    budget_.charge(count, element);
    const uint64_t bytes = count * element;
    std::vector<std::byte>& target = owned_.emplace_back(bytes);
    std::vector<uint64_t> index(view.shape.size(), 0);
    uint64_t from = view.offset;
    for (uint64_t i = 0; i < count; ++i) {
      std::memcpy(target.data() + i * element, storage.data() + from * element, element);
      for (size_t axis = index.size(); axis-- > 0;) {
        from += view.strides[axis];
        if (++index[axis] < view.shape[axis]) break;
        from -= index[axis] * view.strides[axis];
        index[axis] = 0;
      }
    }
    return target;
  }
  std::vector<std::vector<std::byte>> take() { return std::move(owned_); }

 private:
  uint64_t left_;
  MemoryBudget& budget_;
  const std::string& file_;
  std::vector<std::vector<std::byte>> owned_;
};

// Elements from the first to the last that a view reads, and how many it has; nothing on overflow.
struct Reach {
  uint64_t count = 1, end = 0;
  bool contiguous = true;
};
std::optional<Reach> reach_of(const View& view) {
  Reach reach;
  for (const uint64_t extent : view.shape) {
    if (extent == 0) return Reach{.count = 0};
  }
  uint64_t last = view.offset;
  for (size_t axis = view.shape.size(); axis-- > 0;) {
    const uint64_t extent = view.shape[axis], stride = view.strides[axis];
    if (extent > 1 && stride != reach.count) reach.contiguous = false;
    uint64_t span = 0;
    if (__builtin_mul_overflow(extent - 1, stride, &span) ||
        __builtin_add_overflow(last, span, &last) ||
        __builtin_mul_overflow(reach.count, extent, &reach.count)) {
      return std::nullopt;
    }
  }
  if (__builtin_add_overflow(last, uint64_t{1}, &reach.end)) return std::nullopt;
  return reach;
}

// PyTorch's negative bit: the tensor is the storage's values times -1.
void negate(DType dtype, std::span<std::byte> values) {
  const size_t element = size_of(dtype);
  for (size_t sign = element - 1; sign < values.size(); sign += element) {
    values[sign] ^= std::byte{0x80};
  }
}

SafetensorsTensor make_tensor(const std::string& name, const TorchView& torch_view,
                              const TorchContents& contents, Copies& copies,
                              const std::string& file) {
  if (torch_view.other) {
    fail(ErrorKind::checkpoint, "{}: tensor {}: expected a dense tensor with values, got {}. {}",
         file, excerpt(name), torch_view.other->what, torch_view.other->remedy);
  }
  const TorchStorage& storage = contents.pickle.storages[torch_view.storage];
  const bool other_type = !torch_view.type.empty();
  if (!storage.dtype || other_type || (torch_view.negative && !is_floating(*storage.dtype))) {
    fail(
        ErrorKind::checkpoint,
        "{}: tensor {}: expected f64, f32, f16, bf16, i64, i32, u8 or bool, got a {}{}. Convert it "
        "in Python.",
        file, excerpt(name), torch_view.negative ? "negated " : "",
        other_type ? torch_view.type : storage.type);
  }
  const View view = view_of(contents.pickle, torch_view);
  const Bytes bytes = contents.storages->bytes_of(storage);
  const size_t element = storage.element_bytes;
  const std::optional<Reach> reach = reach_of(view);
  const bool fits = reach && reach->end <= bytes.size() / element && reach->end <= storage.elements;
  if (!fits) {
    fail(ErrorKind::checkpoint,
         "{}: tensor {}: its shape ({}), strides ({}) and offset {} reach beyond its storage of {} "
         "elements. Download or copy the file again.",
         file, excerpt(name), fmt::join(view.shape, ","), fmt::join(view.strides, ","), view.offset,
         std::min<uint64_t>(storage.elements, bytes.size() / element));
  }
  SafetensorsTensor tensor{.name = name, .dtype = *storage.dtype, .shape = view.shape, .bytes = {}};
  if (reach->count == 0) return tensor;
  if (reach->contiguous && !torch_view.negative) {
    copies.charge(reach->count, element);
    tensor.bytes = bytes.subspan(view.offset * element, reach->count * element);
    return tensor;
  }
  const std::span<std::byte> own = copies.copy(view, element, bytes, reach->count);
  if (torch_view.negative) negate(*storage.dtype, own);
  tensor.bytes = own;
  return tensor;
}

}  // namespace

WeightsFormat weights_format(std::string_view content) {
  // A safetensors file whose header has a length that begins alike has '{' at byte 8.
  if (content.size() > 8 && content[8] == '{') return WeightsFormat::safetensors;
  if (content.starts_with("PK\x03\x04")) return WeightsFormat::torch_zip;
  const bool pickle =
      content.size() >= 2 && content[0] == '\x80' && content[1] >= '\x02' && content[1] <= '\x05';
  return pickle ? WeightsFormat::torch_pickle : WeightsFormat::safetensors;
}

SafetensorsFile parse_torch_file(Bytes bytes, const std::string& name, const std::string& key) {
  constexpr uint64_t least_budget = 4 << 20;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  MemoryBudget budget(bytes.size() + least_budget, name);
  const TorchContents contents = weights_format(text) == WeightsFormat::torch_zip
                                     ? read_torch_archive(bytes, name, budget)
                                     : read_torch_streams(bytes, name, budget);
  TorchWeights weights = find_torch_weights(contents.pickle, key, name, budget);
  Copies copies(bytes.size(), budget, name);
  std::vector<SafetensorsTensor> tensors;
  size_t negative = 0;
  for (const auto& [tensor, index] : weights.views) {
    const TorchView& view = contents.pickle.views[index];
    tensors.push_back(make_tensor(tensor, view, contents, copies, name));
    negative += view.negative ? 1 : 0;
  }
  if (negative > 0) {
    weights.notes.push_back(fmt::format(
        "{}: {} of {} tensors have PyTorch's negative bit: their stored values are negated",
        printable(name), negative, tensors.size()));
  }
  std::map<std::string, std::string> metadata;
  if (!weights.classes.empty()) {
    JsonWriter json;
    json.begin_array();
    for (const std::string& one : weights.classes) json.value(one);
    metadata["classes"] = json.end_array().str();
  }
  SafetensorsFile file =
      SafetensorsFile::of(name, std::move(tensors), copies.take(), std::move(metadata));
  file.add_notes(std::move(weights.notes));
  file.set_network(std::move(weights.network), std::move(weights.library));
  return file;
}

SafetensorsFile open_weights(const std::filesystem::path& path, const std::string& key) {
  MappedFile mapping(path, ErrorKind::checkpoint);
  const std::string_view text(reinterpret_cast<const char*>(mapping.bytes().data()),
                              mapping.bytes().size());
  if (weights_format(text) == WeightsFormat::safetensors) {
    SafetensorsFile file = SafetensorsFile::open(path);
    if (!key.empty()) file.select(key);
    return file;
  }
  SafetensorsFile file = parse_torch_file(mapping.bytes(), path.string(), key);
  file.hold(std::move(mapping));
  return file;
}

}  // namespace whisker
