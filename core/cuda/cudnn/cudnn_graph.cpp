#include "core/cuda/cudnn/cudnn_graph.h"

#include <sstream>

namespace whisker::cuda::cudnn {
namespace {

cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDNN_DATA_FLOAT;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    case DType::f16:
      return CUDNN_DATA_HALF;
    default:
      fail(ErrorKind::internal, "cuDNN: no tensor in {}", name_of(dtype));
  }
}

// Convolutions, products and sums always accumulate in f32.
constexpr cudnnDataType_t compute_type = CUDNN_DATA_FLOAT;

NumericalNotes notes_of(const Descriptor& engine) {
  NumericalNotes notes = 0;
  for (const auto value : engine.get_array<cudnnBackendNumericalNote_t>(
           CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT)) {
    notes |= note(value);
  }
  return notes;
}

}  // namespace

Descriptor device_properties(std::string_view json) {
  Descriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties.set_array<char>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, json);
  properties.finalize("device properties");
  return properties;
}

TensorSpec nhwc(int64_t id, const std::array<int64_t, 4>& shape, DType dtype) {
  const auto& [n, h, w, c] = shape;
  return {.id = id, .extents = {n, c, h, w}, .strides = {h * w * c, 1, w * c, c}, .dtype = dtype};
}

const Descriptor& OperationGraph::tensor(const TensorSpec& t) {
  Descriptor& tensor = parts_.emplace_back(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, t.id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, data_type(t.dtype));
  tensor.set_array<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, t.extents);
  tensor.set_array<int64_t>(CUDNN_ATTR_TENSOR_STRIDES, t.strides);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16});
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, t.is_virtual);
  if (t.by_value) tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  tensor.finalize("a tensor");
  return tensor;
}

Descriptor& OperationGraph::operation(cudnnBackendDescriptorType_t type, Parts parts) {
  Descriptor& operation = parts_.emplace_back(type);
  for (const auto& [name, part] : parts) operation.set(name, part);
  operations_.push_back(&operation);
  return operation;
}

void OperationGraph::convolution(ConvolutionPass pass, const Conv2dGeometry& g, const Descriptor& x,
                                 const Descriptor& w, const Descriptor& y) {
  struct Names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
  };
  static constexpr Names names[] = {
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};
  const Names& own = names[static_cast<size_t>(pass)];
  Descriptor& geometry = parts_.emplace_back(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const auto set_pair = [&](cudnnBackendAttributeName_t name, int64_t down, int64_t across) {
    geometry.set_array<int64_t>(name, std::array{down, across});
  };
  geometry.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, compute_type);
  geometry.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  geometry.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2});
  set_pair(CUDNN_ATTR_CONVOLUTION_DILATIONS, g.dilation_h, g.dilation_w);
  set_pair(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, g.stride_h, g.stride_w);
  set_pair(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, g.pad_top, g.pad_left);
  set_pair(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, g.pad_bottom, g.pad_right);
  geometry.finalize("a convolution");
  Descriptor& op =
      operation(own.type, {{own.convolution, geometry}, {own.x, x}, {own.w, w}, {own.y, y}});
  op.set(own.alpha, 1.0f);
  op.set(own.beta, 0.0f);
  op.finalize("a pass of a convolution");
}

void OperationGraph::pointwise(cudnnPointwiseMode_t f, const Descriptor& x, const Descriptor* b,
                               const Descriptor& y) {
  Descriptor& function = parts_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.set(CUDNN_ATTR_POINTWISE_MODE, f);
  function.set(CUDNN_ATTR_POINTWISE_MATH_PREC, compute_type);
  function.finalize("a pointwise function");
  Descriptor& op = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
                             {{CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function},
                              {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x},
                              {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y}});
  if (b) op.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  op.finalize("a pointwise operation");
}

void OperationGraph::reduce(cudnnReduceTensorOp_t op, const Descriptor& x, const Descriptor& y) {
  Descriptor& reduction = parts_.emplace_back(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  reduction.set(CUDNN_ATTR_REDUCTION_OPERATOR, op);
  reduction.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, compute_type);
  reduction.finalize("a reduction");
  operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
            {{CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction},
             {CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x},
             {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y}})
      .finalize("a reduction of a tensor");
}

void OperationGraph::reshape(const Descriptor& x, const Descriptor& y) {
  operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
            {{CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x}, {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y}})
      .finalize("a reshape");
}

void OperationGraph::matmul(const Descriptor& a, const Descriptor& b, const Descriptor& c) {
  Descriptor& product = parts_.emplace_back(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  product.set(CUDNN_ATTR_MATMUL_COMP_TYPE, compute_type);
  product.finalize("a product");
  operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, {{CUDNN_ATTR_OPERATION_MATMUL_DESC, product},
                                                        {CUDNN_ATTR_OPERATION_MATMUL_ADESC, a},
                                                        {CUDNN_ATTR_OPERATION_MATMUL_BDESC, b},
                                                        {CUDNN_ATTR_OPERATION_MATMUL_CDESC, c}})
      .finalize("a product of tensors");
}

bool OperationGraph::finalize() {
  graph_.emplace(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph_->set_array(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_);
  if (target_.handle) graph_->set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target_.handle);
  return supported(graph_->try_finalize(), "cudnnBackendFinalize of an operation graph");
}

std::string EngineChoice::text() const {
  std::string text = fmt::format("engine {}", engine);
  if (!knobs.empty()) text += " knobs";
  for (const auto& [knob, value] : knobs) text += fmt::format(" {}:{}", knob, value);
  return text;
}

std::optional<EngineChoice> EngineChoice::parse(const std::string& text) {
  EngineChoice choice;
  std::istringstream words(text);
  std::string word;
  words >> word >> choice.engine >> word;
  char colon;
  for (int64_t knob, value; words >> knob >> colon >> value;)
    choice.knobs.emplace_back(knob, value);
  if (choice.text() != text) return std::nullopt;
  return choice;
}

std::vector<EngineChoice> proposals(const OperationGraph& graph, cudnnBackendHeurMode_t heuristic) {
  constexpr size_t most = 64;  // the heuristics offer about forty for a convolution
  Descriptor query(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  query.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.raw());
  query.set(CUDNN_ATTR_ENGINEHEUR_MODE, heuristic);
  if (!graph.target().handle) {
    query.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *graph.target().device_properties);
  }
  if (!supported(query.try_finalize(), "cudnnBackendFinalize of a heuristic")) return {};
  std::vector<EngineChoice> found;
  for (const Descriptor& configuration : query.get_descriptors(
           CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, most)) {
    EngineChoice& choice = found.emplace_back();
    const auto engines = configuration.get_descriptors(CUDNN_ATTR_ENGINECFG_ENGINE,
                                                       CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
    if (engines.empty()) fail(ErrorKind::internal, "cuDNN: a configuration without an engine");
    choice.engine = engines[0].get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
    for (const Descriptor& knob : configuration.get_descriptors(
             CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
             CUDNN_KNOB_TYPE_COUNTS)) {
      choice.knobs.emplace_back(knob.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE),
                                knob.get<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
    }
  }
  return found;
}

std::unique_ptr<Plan> Plan::make(std::shared_ptr<const OperationGraph> graph,
                                 const EngineChoice& choice, NumericalNotes refused) {
  const Target& target = graph->target();
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph->raw());
  engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, choice.engine);
  if (!target.handle) engine.set(CUDNN_ATTR_ENGINE_DEVICEPROP, *target.device_properties);
  if (engine.try_finalize() != CUDNN_STATUS_SUCCESS) return nullptr;
  if (notes_of(engine) & refused) return nullptr;

  std::vector<Descriptor> parts;
  for (const auto& [type, value] : choice.knobs) {
    Descriptor& knob = parts.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(type));
    knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value);
    if (knob.try_finalize() != CUDNN_STATUS_SUCCESS) return nullptr;
  }
  std::vector<const Descriptor*> knobs;
  for (const Descriptor& knob : parts) knobs.push_back(&knob);
  Descriptor configuration(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  configuration.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  configuration.set_array(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, knobs);
  if (configuration.try_finalize() != CUDNN_STATUS_SUCCESS) return nullptr;

  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (target.handle) plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  if (plan.try_finalize() != CUDNN_STATUS_SUCCESS) return nullptr;
  parts.push_back(std::move(engine));
  parts.push_back(std::move(configuration));
  return std::unique_ptr<Plan>(
      new Plan(std::move(graph), choice, std::move(parts), std::move(plan)));
}

void Plan::execute(std::span<const Binding> bindings, void* workspace) const {
  std::vector<int64_t> ids;
  std::vector<void*> memory;
  for (const Binding& binding : bindings) {
    ids.push_back(binding.id);
    memory.push_back(binding.memory);
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set_array<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.set_pointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, memory);
  pack.set_pointers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, std::array{workspace});
  pack.finalize("a variant pack");
  check(cudnnBackendExecute(graph_->target().handle, plan_.raw(), pack.raw()),
        fmt::format("cudnnBackendExecute ({})", choice_.text()));
}

}  // namespace whisker::cuda::cudnn
