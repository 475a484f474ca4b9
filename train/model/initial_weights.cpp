#include "train/model/initial_weights.h"

#include "core/io/counted.h"
#include "core/io/text.h"
#include "core/io/torch_file.h"
#include "layers/weights/tensor_match.h"
#include "layers/weights/weights.h"
#include "train/model/hub_folder.h"
#include "train/model/other_computation.h"
#include "train/model/signature.h"

#include <algorithm>
#include <optional>

namespace whisker {
namespace {

std::string some_of(const std::vector<std::string>& classes) {
  constexpr size_t most = 4;
  std::string text = fmt::format(
      "{}", fmt::join(classes.begin(),
                      classes.begin() + static_cast<std::ptrdiff_t>(std::min(classes.size(), most)),
                      ", "));
  if (classes.size() > most) text += fmt::format(" and {} more", classes.size() - most);
  return printable(text);
}

// What the outputs of a network stand for.
struct Outputs {
  std::vector<std::string> names;  // classes, or tokens; none where the weights have none
  std::string of;
  std::string forecast;  // of a series: how far it goes
};

Outputs outputs_of(const Signature& signature) {
  if (const auto* series = std::get_if<SeriesInput>(&signature.input)) {
    return {.names = series->targets,
            .of = "forecasts",
            .forecast = fmt::format(", {} rows", series->horizon)};
  }
  const bool language = signature.task() == Task::language_model;
  if (!language) return {.names = signature.classes, .of = "classes", .forecast = ""};
  const auto& text = std::get<TextInput>(signature.input);
  return {.names = text.vocabulary.tokens(), .of = "tokens", .forecast = ""};
}

Outputs outputs_of(const SafetensorsFile& file) {
  Signature signature{.classes = classes_of(file.metadata(), file.name())};
  const auto sequence = file.metadata().find("sequence");
  if (sequence != file.metadata().end()) {
    signature.input = sequence_from_json(sequence->second, file.name());
  }
  return outputs_of(signature);
}

// 0 to n-1 where `classes` are these numbers in another order; else nothing.
std::vector<std::string> as_numbers(const std::vector<std::string>& classes) {
  std::vector<std::string> numbers;
  for (size_t i = 0; i < classes.size(); ++i) numbers.push_back(fmt::to_string(i));
  const bool reordered = numbers != classes && std::ranges::is_permutation(numbers, classes);
  return reordered ? numbers : std::vector<std::string>();
}

}  // namespace

InitialWeights load_initial_weights(const Config& config, const Model& model, ParameterArena& arena,
                                    const Signature& signature) {
  const InitConfig& init = config.init;
  const SafetensorsFile file = open_described_weights(init.from, init.key);
  Outputs stored = outputs_of(file);
  const Outputs own = outputs_of(signature);
  const bool unnamed = stored.names.empty();
  const bool fits =
      unnamed && classes_that_fit(file, model) == std::optional(std::ssize(own.names));
  if (fits) stored.names = as_numbers(own.names);
  const bool named = !stored.names.empty() && !own.names.empty();
  const bool classes_alone = config.data.rules < 3;  // a repeated run keeps the head it kept
  const bool compares =
      named && !(classes_alone && (unnamed || stored.of != "classes" || signature.classes.empty()));
  const bool others = compares && (stored.names != own.names || stored.of != own.of ||
                                   stored.forecast != own.forecast);
  const LoadReport report =
      load_weights(file, model, arena,
                   {.skip = init.skip, .allow_new_head = init.new_head, .other_classes = others});
  const std::string compared =
      !report.new_head_shapes.empty() && named && !others
          ? fmt::format("the outputs differ (last layer: {})", report.new_head_shapes)
      : named ? fmt::format("the {} differ (weights: {}{}{}; data: {}{})", own.of,
                            some_of(stored.names), stored.forecast,
                            unnamed ? ", numbered from 0" : "", some_of(own.names), own.forecast)
              : fmt::format("the number of {} differs", own.of);
  std::vector<std::string> notes = file.notes();
  notes.push_back(
      fmt::format("{} loaded from {}", counted(report.loaded, "tensor"), printable(init.from)));
  for (std::string& note : report.notes(init.from)) notes.push_back(std::move(note));
  if (const auto found = file.metadata().find(calibration_key); found != file.metadata().end()) {
    notes.push_back(fmt::format(
        "{}: its temperature of {} is left out: evaluate --calibrate fits another after training",
        printable(init.from), CalibrationRecord::from_json(found->second, file.name()).text()));
  }
  if (std::string other = other_computation(file, model, init); !other.empty()) {
    notes.push_back(std::move(other));
  }
  std::vector<std::string> head = model.head;
  if (head.empty()) {  // its number of units is written out
    const std::string& last = arena.parameters().back()->name();
    head = {last.substr(0, last.rfind('.'))};
  }
  const bool keeps_head = std::ranges::any_of(arena.parameters(), [&](const auto& parameter) {
    return any_selects(head, parameter->name()) && !any_selects(init.skip, parameter->name());
  });
  if (!report.new_head.empty()) {
    notes.push_back(fmt::format("new head, because {}: {} are re-initialised", compared,
                                fmt::join(report.new_head, ", ")));
  } else if (others && keeps_head) {
    notes.push_back(fmt::format(
        "{}, though {}",
        init.new_head ? "the last layer is kept" : "init.new_head: false keeps the head",
        compared));
  } else if (unnamed && keeps_head && !own.names.empty()) {
    notes.push_back(fmt::format(
        "{} does not name its {}: its outputs, from 0 on, are taken for {} in this order; "
        "init.skip=[{}] re-initialises them",
        printable(init.from), own.of, some_of(own.names), fmt::join(head, ", ")));
  }
  return {.notes = std::move(notes), .batches_tracked = report.batches_tracked};
}

}  // namespace whisker
