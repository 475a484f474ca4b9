#include "core/cuda/cudnn_graph.h"

#include <charconv>

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
      fail(ErrorKind::internal, "cuDNN: no convolution in {}", name_of(dtype));
  }
}

// Products and sums are always accumulated in f32.
constexpr cudnnDataType_t compute_type = CUDNN_DATA_FLOAT;

bool supported(cudnnStatus_t status, std::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return true;
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) return false;
  check(status, what);
  return false;
}

NumericalNotes notes_of(const Descriptor& engine) {
  NumericalNotes notes = 0;
  for (const auto value : engine.get_array<cudnnBackendNumericalNote_t>(
           CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT)) {
    notes |= note(value);
  }
  return notes;
}

std::optional<int64_t> take_number(std::string_view& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

}  // namespace

Descriptor device_properties(std::string_view json) {
  Descriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties.set_array<char>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, json);
  properties.finalize("device properties");
  return properties;
}

const Descriptor& OperationGraph::tensor(const TensorSpec& t) {
  const std::array<int64_t, 4> extents{t.n, t.c, t.h, t.w};
  const std::array<int64_t, 4> strides{t.h * t.w * t.c, 1, t.w * t.c, t.c};
  Descriptor& tensor = keep(Descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR));
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, t.id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, data_type(t.dtype));
  tensor.set_array<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, extents);
  tensor.set_array<int64_t>(CUDNN_ATTR_TENSOR_STRIDES, strides);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, t.alignment);
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, t.is_virtual);
  tensor.finalize("a tensor");
  return tensor;
}

const Descriptor& OperationGraph::convolution(const ConvolutionSpec& c) {
  Descriptor& convolution = keep(Descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR));
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, compute_type);
  convolution.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  convolution.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2});
  convolution.set_array<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, c.dilation);
  convolution.set_array<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, c.stride);
  convolution.set_array<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, c.before);
  convolution.set_array<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, c.after);
  convolution.finalize("a convolution");
  return convolution;
}

Descriptor& OperationGraph::operation(cudnnBackendDescriptorType_t type) {
  Descriptor& operation = keep(Descriptor(type));
  operations_.push_back(&operation);
  return operation;
}

void OperationGraph::convolution_forward(const ConvolutionSpec& c, const Descriptor& x,
                                         const Descriptor& w, const Descriptor& y) {
  const Descriptor& geometry = convolution(c);
  Descriptor& op = operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, geometry);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0f);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0f);
  op.finalize("a forward convolution");
}

void OperationGraph::convolution_backward_input(const ConvolutionSpec& c, const Descriptor& w,
                                                const Descriptor& dy, const Descriptor& dx) {
  const Descriptor& geometry = convolution(c);
  Descriptor& op = operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, geometry);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, dy);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, dx);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1.0f);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0.0f);
  op.finalize("an input gradient");
}

void OperationGraph::convolution_backward_weights(const ConvolutionSpec& c, const Descriptor& x,
                                                  const Descriptor& dy, const Descriptor& dw) {
  const Descriptor& geometry = convolution(c);
  Descriptor& op = operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, geometry);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, dy);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, dw);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1.0f);
  op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0.0f);
  op.finalize("a weight gradient");
}

void OperationGraph::add(const Descriptor& x, const Descriptor& b, const Descriptor& y) {
  Descriptor& function = keep(Descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
  function.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD);
  function.set(CUDNN_ATTR_POINTWISE_MATH_PREC, compute_type);
  function.finalize("an addition");
  Descriptor& op = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  op.finalize("a bias");
}

void OperationGraph::relu(const Descriptor& x, const Descriptor& y) {
  Descriptor& function = keep(Descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
  function.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_RELU_FWD);
  function.set(CUDNN_ATTR_POINTWISE_MATH_PREC, compute_type);
  function.finalize("a relu");
  Descriptor& op = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  op.finalize("an activation");
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

std::optional<EngineChoice> EngineChoice::parse(std::string_view text) {
  if (!take(text, "engine ")) return std::nullopt;
  const auto engine = take_number(text);
  if (!engine) return std::nullopt;
  EngineChoice choice{.engine = *engine, .knobs = {}};
  if (text.empty()) return choice;
  if (!take(text, " knobs")) return std::nullopt;
  while (take(text, " ")) {
    const auto knob = take_number(text);
    if (!knob || !take(text, ":")) return std::nullopt;
    const auto value = take_number(text);
    if (!value) return std::nullopt;
    choice.knobs.emplace_back(*knob, *value);
  }
  if (!text.empty() || choice.knobs.empty()) return std::nullopt;
  return choice;
}

std::vector<Proposal> proposals(const OperationGraph& graph, cudnnBackendHeurMode_t heuristic,
                                size_t most) {
  Descriptor query(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  query.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.raw());
  query.set(CUDNN_ATTR_ENGINEHEUR_MODE, heuristic);
  if (!graph.target().handle) {
    query.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *graph.target().device_properties);
  }
  if (!supported(query.try_finalize(), "cudnnBackendFinalize of a heuristic")) return {};
  std::vector<Proposal> found;
  for (const Descriptor& configuration : query.get_descriptors(
           CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, most)) {
    Proposal& proposal = found.emplace_back();
    const auto engines = configuration.get_descriptors(CUDNN_ATTR_ENGINECFG_ENGINE,
                                                       CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
    if (engines.empty()) fail(ErrorKind::internal, "cuDNN: a configuration without an engine");
    proposal.choice.engine = engines[0].get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
    proposal.notes = notes_of(engines[0]);
    for (const Descriptor& knob : configuration.get_descriptors(
             CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
             CUDNN_KNOB_TYPE_COUNTS)) {
      proposal.choice.knobs.emplace_back(
          knob.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE),
          knob.get<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
    }
  }
  return found;
}

Plan::Plan(std::shared_ptr<const OperationGraph> graph, EngineChoice choice, NumericalNotes notes,
           std::vector<Descriptor> parts, Descriptor plan)
    : graph_(std::move(graph)),
      choice_(std::move(choice)),
      notes_(notes),
      parts_(std::move(parts)),
      plan_(std::move(plan)),
      workspace_bytes_(plan_.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)) {}

std::unique_ptr<Plan> Plan::make(std::shared_ptr<const OperationGraph> graph,
                                 const EngineChoice& choice) {
  const Target& target = graph->target();
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph->raw());
  engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, choice.engine);
  if (!target.handle) engine.set(CUDNN_ATTR_ENGINE_DEVICEPROP, *target.device_properties);
  if (engine.try_finalize() != CUDNN_STATUS_SUCCESS) return nullptr;

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
  const NumericalNotes notes = notes_of(engine);
  parts.push_back(std::move(engine));
  parts.push_back(std::move(configuration));
  return std::unique_ptr<Plan>(
      new Plan(std::move(graph), choice, notes, std::move(parts), std::move(plan)));
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
