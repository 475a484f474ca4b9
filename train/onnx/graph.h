// An ONNX graph under construction: nodes, constants, inputs and outputs. The library that writes
// the format (protobuf messages of package libonnx-dev) is seen by graph.cpp alone; a build without
// it refuses to make a graph.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace whisker {

enum class OnnxType : uint8_t { f32, u8, i64 };

/// An axis: a number, or a name for what differs from run to run.
using OnnxExtent = std::variant<int64_t, std::string>;

struct OnnxAttribute {
  const char* name;
  std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<std::string>> value;
};

/// Begins the file's doc_string, before a checksum (core/io/checksum_mark.h).
inline constexpr std::string_view onnx_mark = "by whisker export";

class OnnxGraph {
 public:
  /// A graph of operator set `opset`. Throws usage where the program was built without ONNX.
  OnnxGraph(const std::string& name, int64_t opset);
  OnnxGraph(OnnxGraph&&) noexcept;
  ~OnnxGraph();

  void input(const std::string& name, OnnxType type, const std::vector<OnnxExtent>& shape);
  void output(const std::string& name, OnnxType type, const std::vector<OnnxExtent>& shape);
  /// The constants' names.
  std::string constant(const std::string& name, std::span<const int64_t> shape,
                       std::span<const float> values);
  std::string constant(std::initializer_list<float> values);
  std::string integers(std::span<const int64_t> values);
  std::string integers(std::initializer_list<int64_t> values) {
    return integers(std::span<const int64_t>(values.begin(), values.size()));
  }
  /// A node's names: its first output, which is `result` where one is given.
  std::string node(const char* op, const std::vector<std::string>& inputs,
                   const std::vector<OnnxAttribute>& attributes = {},
                   const std::string& result = {});
  /// Names of all its outputs.
  std::vector<std::string> nodes(const char* op, const std::vector<std::string>& inputs,
                                 const std::vector<OnnxAttribute>& attributes, size_t outputs);
  void metadata(const std::string& key, const std::string& value);

  /// The file's bytes. Throws usage beyond the format's 2 GiB.
  std::string bytes() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace whisker
