#include "layers/weights/transformers_tensors.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "layers/weights/tensor_match.h"
#include "layers/weights/tensor_names.h"

#include <cstddef>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace whisker {
namespace {

class TensorMerge {
 public:
  explicit TensorMerge(const std::string& file) : file_(file) {}

  void add(SafetensorsTensor tensor) {
    const std::string name = tensor.name;
    if (!tensors_.emplace(name, std::move(tensor)).second) {
      fail(ErrorKind::checkpoint, "{}: two tensors stand for {}; keep one of them", file_,
           excerpt(name));
    }
  }

  void merge_attention() {
    std::vector<std::string> layers;
    for (const auto& [name, tensor] : tensors_) {
      constexpr std::string_view query = "q.weight";
      if (!name.ends_with(".attn.q.weight")) continue;
      layers.push_back(name.substr(0, name.size() - query.size()));
    }
    for (const std::string& layer : layers) {
      join({layer + "q.weight", layer + "k.weight", layer + "v.weight"}, 0, layer + "qkv.weight");
      if (find(layer + "q.bias")) {
        join({layer + "q.bias", layer + "k.bias", layer + "v.bias"}, 0, layer + "qkv.bias");
      } else {
        const SafetensorsTensor& weight = *find(layer + "qkv.weight");
        const uint64_t rows = weight.shape[0];
        put({.name = layer + "qkv.bias", .dtype = weight.dtype, .shape = {rows}, .bytes = {}},
            std::vector<std::byte>(rows * size_of(weight.dtype)));
      }
    }
  }

  // DeiT with distillation has two tokens.
  void merge_tokens() {
    if (!find("dist_token")) return;
    join({"cls_token", "dist_token"}, 1, "cls_token");
    if (!find("head_dist.weight")) return;
    for (const char* part : {".weight", ".bias"}) {
      halve(fmt::format("head{}", part));
      halve(fmt::format("head_dist{}", part));
    }
    join({"head.weight", "head_dist.weight"}, 1, "head.weight");
    add_up("head_dist.bias", "head.bias");
  }

  void take(SafetensorsFile& file) {
    std::vector<SafetensorsTensor> all;
    for (auto& [name, tensor] : tensors_) all.push_back(std::move(tensor));
    file.replace_tensors(std::move(all), std::move(copies_));
  }

 private:
  const SafetensorsTensor* find(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }

  const SafetensorsTensor& need(const std::string& name) const {
    const SafetensorsTensor* const found = find(name);
    if (!found) fail(ErrorKind::checkpoint, "{}: its part of {} is missing", file_, excerpt(name));
    return *found;
  }

  void put(SafetensorsTensor tensor, std::vector<std::byte> bytes) {
    tensor.bytes = copies_.emplace_back(std::move(bytes));
    const std::string name = tensor.name;
    tensors_.insert_or_assign(name, std::move(tensor));
  }

  // Parts of equal shapes along an axis.
  void join(const std::vector<std::string>& parts, size_t axis, const std::string& whole) {
    SafetensorsTensor result = need(parts[0]);
    result.name = whole;
    const std::vector<uint64_t> shape = result.shape;
    uint64_t rows = 1;
    for (size_t i = 0; i < axis && i < shape.size(); ++i) rows *= shape[i];
    for (const std::string& part : parts) {
      const SafetensorsTensor& tensor = need(part);
      if (shape.size() <= axis || tensor.shape != shape || tensor.dtype != result.dtype) {
        fail(ErrorKind::checkpoint, "{}: the parts of {} are {} {} and {} {}", file_,
             excerpt(whole), safetensors_name(result.dtype), shape_text(shape),
             safetensors_name(tensor.dtype), shape_text(tensor.shape));
      }
    }
    if (result.bytes.empty()) {
      fail(ErrorKind::checkpoint, "{}: expected values in the parts of {}, got none, of shape {}",
           file_, excerpt(whole), shape_text(shape));
    }
    std::vector<std::byte> bytes;
    bytes.reserve(parts.size() * result.bytes.size());
    for (uint64_t row = 0; row < rows; ++row) {
      for (const std::string& part : parts) {
        const std::span<const std::byte> from = need(part).bytes;
        const auto own = from.subspan(row * (from.size() / rows), from.size() / rows);
        bytes.insert(bytes.end(), own.begin(), own.end());
      }
    }
    result.shape[axis] *= parts.size();
    for (const std::string& part : parts) tensors_.erase(part);
    put(std::move(result), std::move(bytes));
  }

  // In f32, with half of each value.
  void halve(const std::string& name) {
    SafetensorsTensor tensor = need(name);
    if (!is_floating(tensor.dtype)) {
      fail(ErrorKind::checkpoint, "{}: {}: expected floating numbers, got {}", file_, excerpt(name),
           safetensors_name(tensor.dtype));
    }
    const size_t width = size_of(tensor.dtype), count = tensor.bytes.size() / width;
    std::vector<std::byte> bytes(count * sizeof(float));
    visit(tensor.dtype, [&]<class T>() {
      for (size_t i = 0; i < count; ++i) {
        T value;
        std::memcpy(&value, tensor.bytes.data() + i * width, width);
        const float half = static_cast<float>(value) / 2;
        std::memcpy(bytes.data() + i * sizeof(float), &half, sizeof(float));
      }
    });
    tensor.dtype = DType::f32;
    put(std::move(tensor), std::move(bytes));
  }

  // Both in f32.
  void add_up(const std::string& other, const std::string& name) {
    SafetensorsTensor tensor = need(name);
    const std::span<const std::byte> more = need(other).bytes;
    if (more.size() != tensor.bytes.size()) {
      fail(ErrorKind::checkpoint, "{}: {} and {} are of other shapes", file_, excerpt(name),
           excerpt(other));
    }
    std::vector<std::byte> bytes(tensor.bytes.begin(), tensor.bytes.end());
    for (size_t at = 0; at < bytes.size(); at += sizeof(float)) {
      float a, b;
      std::memcpy(&a, bytes.data() + at, sizeof(a));
      std::memcpy(&b, more.data() + at, sizeof(b));
      a += b;
      std::memcpy(bytes.data() + at, &a, sizeof(a));
    }
    tensors_.erase(other);
    put(std::move(tensor), std::move(bytes));
  }

  const std::string& file_;
  std::map<std::string, SafetensorsTensor> tensors_;
  std::vector<std::vector<std::byte>> copies_;
};

}  // namespace

void use_preset_tensors(SafetensorsFile& file, std::string_view model_type) {
  const std::vector<std::string> names = names_from_transformers(model_type, bare_names(file));
  TensorMerge merge(file.name());
  int64_t unused = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].starts_with(fmt::format("{}.pooler.", model_type))) {  // of no classifier
      ++unused;
      continue;
    }
    SafetensorsTensor tensor = file.tensors()[i];
    tensor.name = names[i];
    merge.add(std::move(tensor));
  }
  if (model_type == "vit" || model_type == "deit") {
    merge.merge_attention();
    merge.merge_tokens();
  }
  merge.take(file);
  if (unused > 0) {
    file.add_notes({fmt::format("{}: {} of {}.pooler {} left out: its classifier does not read {}",
                                printable(file.name()), counted(unused, "tensor"), model_type,
                                unused == 1 ? "is" : "are", unused == 1 ? "it" : "them")});
  }
}

}  // namespace whisker
