// From an archive or streams to the tensors of a state_dict.
#include "core/io/torch_file.h"

#include "core/io/text.h"
#include "core/io/torch_pickle.h"
#include "core/io/utf8.h"
#include "core/io/zip.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

namespace whisker {
namespace {

using Kind = TorchValue::Kind;
using Bytes = std::span<const std::byte>;

struct Contents {
  TorchPickle pickle;
  std::map<std::string, Bytes, std::less<>> storages = {};  // by key
};

// --- the two formats

Contents read_archive(Bytes bytes, const std::string& file) {
  const auto entries = zip_entries(bytes, file);
  constexpr std::string_view pickle_name = "data.pkl";
  const auto is_pickle = [&](const auto& entry) {
    const std::string_view name = entry.first;
    return name == pickle_name || name.ends_with("/data.pkl");
  };
  const auto pickle = std::ranges::find_if(entries, is_pickle);
  if (pickle == entries.end()) {
    fail(ErrorKind::checkpoint,
         "{}: expected a zip archive as torch.save writes, got one without data.pkl.", file);
  }
  const std::string folder = pickle->first.substr(0, pickle->first.size() - pickle_name.size());
  const auto order = entries.find(folder + "byteorder");
  if (order != entries.end() && !order->second.empty() && order->second[0] != std::byte{'l'}) {
    fail(ErrorKind::checkpoint, "{}: expected little-endian numbers, got big-endian ones.", file);
  }
  Contents contents{.pickle = read_torch_pickle(pickle->second, file)};
  for (const TorchStorage& storage : contents.pickle.storages) {
    const auto found = entries.find(folder + "data/" + storage.key);
    if (found == entries.end()) {
      fail(ErrorKind::checkpoint, "{}: the archive lacks its storage {}.", file,
           excerpt(storage.key));
    }
    contents.storages.emplace(storage.key, found->second);
  }
  return contents;
}

// Streams: a magic number, a version, the machine, the values, the storages' keys; then of each
// storage its number of elements and its bytes.
Contents read_streams(Bytes bytes, const std::string& file) {
  constexpr std::string_view magic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
  size_t at = 0;
  const auto next = [&] {
    TorchPickle pickle = read_torch_pickle(bytes.subspan(at), file);
    at += pickle.bytes;
    return pickle;
  };
  const TorchPickle first = next();
  if (first.values[first.root].text != magic) {
    fail(ErrorKind::checkpoint, "{}: expected a file of torch.save, got another pickle.", file);
  }
  next();
  const TorchPickle machine = next();
  const std::vector<uint32_t>& facts = machine.values[machine.root].items;
  for (size_t i = 0; i + 1 < facts.size(); i += 2) {
    const TorchValue& fact = machine.values[facts[i + 1]];
    if (machine.values[facts[i]].text == "little_endian" && fact.kind == Kind::boolean &&
        fact.integer == 0) {
      fail(ErrorKind::checkpoint, "{}: expected little-endian numbers, got big-endian ones.", file);
    }
  }
  Contents contents{.pickle = next()};
  const TorchPickle keys = next();
  std::map<std::string_view, uint64_t> element_bytes;
  for (const TorchStorage& storage : contents.pickle.storages) {
    element_bytes.emplace(storage.key, storage.element_bytes);
  }
  const auto cut_short = [&]() {
    fail(ErrorKind::checkpoint, "{}: the file is cut short. Download or copy it again.", file);
  };
  for (const uint32_t index : keys.values[keys.root].items) {
    const std::string& key = keys.values[index].text;
    uint64_t count = 0;
    if (bytes.size() - at < sizeof(count)) cut_short();
    std::memcpy(&count, bytes.data() + at, sizeof(count));
    at += sizeof(count);
    const auto known = element_bytes.find(key);
    uint64_t size = 0;
    if (known == element_bytes.end() || __builtin_mul_overflow(count, known->second, &size)) {
      fail(ErrorKind::checkpoint, "{}: a damaged file: storage {} belongs to no tensor.", file,
           excerpt(key));
    }
    if (size > bytes.size() - at) cut_short();
    contents.storages.emplace(key, bytes.subspan(at, size));
    at += size;
  }
  return contents;
}

// --- the state_dict

// Where checkpoints keep it, the likeliest first.
constexpr std::array<std::string_view, 8> wrappers = {
    "state_dict", "model_state_dict", "model_state", "model", "module",
    "net",        "network",          "weights"};
constexpr int most_wrappers = 8;

class StateDict {
 public:
  StateDict(const TorchPickle& pickle, const std::string& file)
      : values_(pickle.values), file_(file), dict_(pickle.root) {
    for (int depth = 0; depth < most_wrappers; ++depth) {
      const std::optional<uint32_t> inner = wrapped();
      if (!inner) break;
      dict_ = *inner;
    }
    if (!holds_tensors(dict_)) refuse();
  }

  static constexpr size_t most_name_bytes = 4096;

  /// Its tensors' names, and the indices of their views; of equal names the last, as in Python.
  std::map<std::string, size_t> tensors() const {
    std::map<std::string, size_t> result;
    each(dict_, [&](const TorchValue& key, uint32_t item) {
      if (key.kind != Kind::text || values_[item].kind != Kind::tensor) return;
      if (key.text.size() > most_name_bytes) {
        fail(ErrorKind::checkpoint, "{}: expected tensor names of at most {} bytes, got {}.", file_,
             most_name_bytes, key.text.size());
      }
      if (find_invalid_utf8(key.text) != std::string_view::npos) {
        fail(ErrorKind::checkpoint, "{}: expected tensor names in UTF-8, got {}.", file_,
             excerpt(key.text));
      }
      result.insert_or_assign(key.text, static_cast<size_t>(values_[item].integer));
    });
    return result;
  }

 private:
  template <class Fn>
  void each(uint32_t dict, const Fn& fn) const {
    const TorchValue& value = values_[dict];
    if (value.kind != Kind::dict) return;
    for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
      fn(values_[value.items[i]], value.items[i + 1]);
    }
  }
  bool holds_tensors(uint32_t dict) const {
    bool any = false;
    each(dict, [&](const TorchValue& key, uint32_t item) {
      any = any || (key.kind == Kind::text && values_[item].kind == Kind::tensor);
    });
    return any;
  }
  // The dict under the likeliest key of this one.
  std::optional<uint32_t> wrapped() const {
    std::optional<uint32_t> found;
    size_t best = wrappers.size();
    each(dict_, [&](const TorchValue& key, uint32_t item) {
      const auto* name = std::ranges::find(wrappers, key.text);
      const auto rank = static_cast<size_t>(name - wrappers.begin());
      if (key.kind != Kind::text || values_[item].kind != Kind::dict || rank >= best) return;
      best = rank;
      found = item;
    });
    return found;
  }
  [[noreturn]] void refuse() const {
    std::string keys;
    size_t count = 0;
    constexpr size_t most = 6;
    each(dict_, [&](const TorchValue& key, uint32_t) {
      if (key.kind == Kind::text && count++ < most) {
        keys += fmt::format("{}{}", keys.empty() ? "" : ", ", excerpt(key.text));
      }
    });
    fail(ErrorKind::checkpoint,
         "{}: expected a state_dict of named tensors, alone or under one of the keys {}, got {}. "
         "Save it with torch.save(model.state_dict(), FILE).",
         file_, fmt::join(wrappers, ", "),
         count == 0 ? "none" : fmt::format("the keys {}{}", keys, count > most ? ", ..." : ""));
  }

  const std::deque<TorchValue>& values_;
  const std::string& file_;
  uint32_t dict_;
};

// --- tensors

// Copies of tensors that are not stored in the order of their axes.
class Copies {
 public:
  Copies(size_t file_bytes, const std::string& file)
      : left_(2 * file_bytes + (1 << 20)), file_(file) {}

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
  Bytes copy(const TorchView& view, size_t element, Bytes storage, uint64_t count) {
    charge(count, element);
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
  const std::string& file_;
  std::vector<std::vector<std::byte>> owned_;
};

// Elements from the first to the last that a view reads, and how many it has; nothing on overflow.
struct Reach {
  uint64_t count = 1, end = 0;
  bool contiguous = true;
};
std::optional<Reach> reach_of(const TorchView& view) {
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

SafetensorsTensor make_tensor(const std::string& name, const TorchView& view,
                              const Contents& contents, Copies& copies, const std::string& file) {
  const TorchStorage& storage = contents.pickle.storages[view.storage];
  if (!storage.dtype) {
    fail(ErrorKind::checkpoint,
         "{}: tensor {}: expected f64, f32, f16, bf16, i64, i32, u8 or bool, got a {}. Convert it "
         "in "
         "Python.",
         file, excerpt(name), storage.type);
  }
  const auto found = contents.storages.find(storage.key);
  const Bytes bytes = found == contents.storages.end() ? Bytes() : found->second;
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
  if (reach->count > 0 && reach->contiguous) {
    copies.charge(reach->count, element);
    tensor.bytes = bytes.subspan(view.offset * element, reach->count * element);
  } else if (reach->count > 0) {
    tensor.bytes = copies.copy(view, element, bytes, reach->count);
  }
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

SafetensorsFile parse_torch_file(Bytes bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const Contents contents = weights_format(text) == WeightsFormat::torch_zip
                                ? read_archive(bytes, name)
                                : read_streams(bytes, name);
  Copies copies(bytes.size(), name);
  std::vector<SafetensorsTensor> tensors;
  for (const auto& [tensor, view] : StateDict(contents.pickle, name).tensors()) {
    tensors.push_back(make_tensor(tensor, contents.pickle.views[view], contents, copies, name));
  }
  return SafetensorsFile::of(name, std::move(tensors), copies.take());
}

SafetensorsFile open_weights(const std::filesystem::path& path) {
  MappedFile mapping(path, ErrorKind::checkpoint);
  const std::string_view text(reinterpret_cast<const char*>(mapping.bytes().data()),
                              mapping.bytes().size());
  if (weights_format(text) == WeightsFormat::safetensors) return SafetensorsFile::open(path);
  SafetensorsFile file = parse_torch_file(mapping.bytes(), path.string());
  file.hold(std::move(mapping));
  return file;
}

}  // namespace whisker
