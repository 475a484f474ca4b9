#include "core/cuda/cudnn/cudnn_graph.h"

#include <charconv>

namespace whisker::cuda::cudnn {
namespace {

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
