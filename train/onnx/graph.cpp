// The messages of ONNX, and their serialisation.
#include "train/onnx/graph.h"

#include "core/error.h"
#include "core/io/checksum_mark.h"
#include "core/version.h"

#include <limits>

#include <onnx/onnx_pb.h>

namespace whisker {

struct OnnxGraph::Parts {
  onnx::ModelProto model;
  int64_t names = 0;

  onnx::GraphProto& graph() { return *model.mutable_graph(); }
  std::string next(std::string_view of) { return fmt::format("{}_{}", of, ++names); }
};

namespace {

constexpr int64_t ir_version = 8;

int32_t type_of(OnnxType type) {
  switch (type) {
    case OnnxType::u8:
      return onnx::TensorProto::UINT8;
    case OnnxType::i64:
      return onnx::TensorProto::INT64;
    case OnnxType::f32:
      break;
  }
  return onnx::TensorProto::FLOAT;
}

void describe(onnx::ValueInfoProto& value, const std::string& name, OnnxType type,
              const std::vector<OnnxExtent>& shape) {
  value.set_name(name);
  auto& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type_of(type));
  for (const OnnxExtent& extent : shape) {
    auto& axis = *tensor.mutable_shape()->add_dim();
    if (const auto* number = std::get_if<int64_t>(&extent)) {
      axis.set_dim_value(*number);
    } else {
      axis.set_dim_param(std::get<std::string>(extent));
    }
  }
}

template <class T>
void fill(onnx::TensorProto& tensor, const std::string& name, OnnxType type,
          std::span<const int64_t> shape, std::span<const T> values) {
  tensor.set_name(name);
  tensor.set_data_type(type_of(type));
  for (const int64_t extent : shape) tensor.add_dims(extent);
  tensor.set_raw_data(values.data(), values.size_bytes());
}

void add(onnx::NodeProto& node, const OnnxAttribute& attribute) {
  auto& to = *node.add_attribute();
  to.set_name(attribute.name);
  if (const auto* integer = std::get_if<int64_t>(&attribute.value)) {
    to.set_type(onnx::AttributeProto::INT);
    to.set_i(*integer);
  } else if (const auto* real = std::get_if<float>(&attribute.value)) {
    to.set_type(onnx::AttributeProto::FLOAT);
    to.set_f(*real);
  } else if (const auto* text = std::get_if<std::string>(&attribute.value)) {
    to.set_type(onnx::AttributeProto::STRING);
    to.set_s(*text);
  } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&attribute.value)) {
    to.set_type(onnx::AttributeProto::INTS);
    for (const int64_t one : *integers) to.add_ints(one);
  } else {
    to.set_type(onnx::AttributeProto::STRINGS);
    for (const auto& one : std::get<std::vector<std::string>>(attribute.value)) to.add_strings(one);
  }
}

}  // namespace

OnnxGraph::OnnxGraph(const std::string& name, int64_t opset) : parts_(std::make_unique<Parts>()) {
  parts_->model.set_ir_version(ir_version);
  parts_->model.set_producer_name("whisker");
  parts_->model.set_producer_version(version);
  parts_->model.set_doc_string(checksum_mark(onnx_mark));
  parts_->model.add_opset_import()->set_version(opset);
  parts_->graph().set_name(name);
}
OnnxGraph::OnnxGraph(OnnxGraph&&) noexcept = default;
OnnxGraph::~OnnxGraph() = default;

void OnnxGraph::input(const std::string& name, OnnxType type,
                      const std::vector<OnnxExtent>& shape) {
  describe(*parts_->graph().add_input(), name, type, shape);
}

void OnnxGraph::output(const std::string& name, OnnxType type,
                       const std::vector<OnnxExtent>& shape) {
  describe(*parts_->graph().add_output(), name, type, shape);
}

std::string OnnxGraph::constant(const std::string& name, std::span<const int64_t> shape,
                                std::span<const float> values) {
  fill(*parts_->graph().add_initializer(), name, OnnxType::f32, shape, values);
  return name;
}

std::string OnnxGraph::constant(std::initializer_list<float> values) {
  const int64_t count = std::ssize(values);
  const bool scalar = count == 1;
  return constant(parts_->next("constant"), std::span(&count, scalar ? 0 : 1),
                  std::span<const float>(values.begin(), values.size()));
}

std::string OnnxGraph::integers(std::span<const int64_t> values) {
  const std::string name = parts_->next("integers");
  const int64_t count = std::ssize(values);
  fill(*parts_->graph().add_initializer(), name, OnnxType::i64, std::span(&count, 1), values);
  return name;
}

std::string OnnxGraph::node(const char* op, const std::vector<std::string>& inputs,
                            const std::vector<OnnxAttribute>& attributes,
                            const std::string& result) {
  onnx::NodeProto& node = *parts_->graph().add_node();
  node.set_op_type(op);
  node.set_name(parts_->next(op));
  for (const std::string& input : inputs) node.add_input(input);
  for (const OnnxAttribute& attribute : attributes) add(node, attribute);
  node.add_output(result.empty() ? node.name() + "_out" : result);
  return node.output(0);
}

std::vector<std::string> OnnxGraph::nodes(const char* op, const std::vector<std::string>& inputs,
                                          const std::vector<OnnxAttribute>& attributes,
                                          size_t outputs) {
  std::vector<std::string> names = {node(op, inputs, attributes)};
  onnx::NodeProto& last = *parts_->graph().mutable_node(parts_->graph().node_size() - 1);
  for (size_t i = 1; i < outputs; ++i) {
    names.push_back(fmt::format("{}_{}", names[0], i));
    last.add_output(names.back());
  }
  return names;
}

void OnnxGraph::metadata(const std::string& key, const std::string& value) {
  auto& entry = *parts_->model.add_metadata_props();
  entry.set_key(key);
  entry.set_value(value);
}

std::string OnnxGraph::bytes() const {
  if (parts_->model.ByteSizeLong() > std::numeric_limits<int32_t>::max()) {
    fail(ErrorKind::usage,
         "export: the network has more than the 2 GiB that an ONNX file can hold");
  }
  std::string content = parts_->model.SerializeAsString();
  set_checksum(content, onnx_mark);
  return content;
}

}  // namespace whisker
