#include "train/data/initial_input.h"

#include "core/io/file.h"
#include "core/io/text.h"
#include "core/io/torch_file.h"
#include "layers/builder/model_builder.h"
#include "layers/weights/tensor_match.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

namespace whisker {
namespace {

namespace fs = std::filesystem;

constexpr const char* own_data_counts = "init.skip of its first layer takes the data's own";

// The input of the run in whose folder the configuration stands.
std::optional<InitialInput> input_of_run(const std::string& folder) {
  constexpr size_t most_bytes = 64 << 20;
  const fs::path state = fs::path(folder) / "last" / "state.json";
  std::error_code error;
  if (folder.empty() || !fs::exists(state, error)) return std::nullopt;
  const std::string name = state.string();
  const JsonValue json = JsonValue::parse(read_file(state, most_bytes, ErrorKind::checkpoint),
                                          {.name = name, .kind = ErrorKind::checkpoint});
  return InitialInput{.input = sequence_from_json(json.at("preprocess").as_string(), name),
                      .file = ""};
}

bool skips_first_layer(const Config& config, const Signature& signature) {
  if (config.init.skip.empty()) return false;
  BuildOptions options = signature.build_options(1, signature.usual_steps());
  options.classes = std::max<int64_t>(options.classes, 2);
  const ParameterList parameters = build_model(config.model, options).net->parameters();
  return !parameters.empty() && any_selects(config.init.skip, parameters.front()->name());
}

// What the alternatives of InputDescription are; labelled texts and language models share one.
constexpr std::array<const char*, 4> input_kinds = {"images", "text", "rows", "a series"};

}  // namespace

std::optional<InitialInput> initial_input(const Config& config) {
  if (config.init.from.empty() || config.data.kind == DataKind::images) return std::nullopt;
  if (auto own = input_of_run(config.init.run)) return own;
  std::error_code error;  // without the file a model can still be looked at; training fails later
  if (!fs::exists(config.init.from, error)) return std::nullopt;
  const SafetensorsFile file = open_weights(config.init.from, config.init.key);
  const auto sequence = file.metadata().find("sequence");
  if (sequence == file.metadata().end()) return std::nullopt;
  Signature signature{.input = sequence_from_json(sequence->second, file.name()),
                      .classes = classes_of(file.metadata(), file.name())};
  if (skips_first_layer(config, signature)) return std::nullopt;
  constexpr std::array<size_t, 5> inputs = {0, 1, 1, 2, 3};  // of DataKind
  const size_t wanted = inputs[static_cast<size_t>(config.data.kind)];
  if (signature.input.index() != wanted) {
    fail(ErrorKind::usage,
         "init.from: expected weights of a network on {}, as data.kind says, got {}, which was "
         "trained on {}; {}.",
         input_kinds[wanted], printable(file.name()), input_kinds[signature.input.index()],
         own_data_counts);
  }
  return InitialInput{.input = std::move(signature.input), .file = printable(config.init.from)};
}

std::string vocabulary_note(const std::string& file, const TextInput& input,
                            const TokenCounts& counts) {
  const auto [all, unknown, example] = unknown_tokens(input.vocabulary, counts);
  if (all > 0 && unknown == all) {
    const std::string entries =
        input.vocabulary.tokens().empty()
            ? "it has no entries of its own"
            : fmt::format("its {} entries are such as {}", input.vocabulary.size(),
                          excerpt(input.vocabulary.tokens()[0]));
    fail(ErrorKind::data,
         "data.train: expected tokens of the vocabulary of {}, which is kept, got none: {}, these "
         "tokens are such as {}. {}.",
         file, entries, excerpt(example), own_data_counts);
  }
  const double percent = 100 * static_cast<double>(unknown) / static_cast<double>(all);
  std::string note =
      fmt::format("the vocabulary of {} ({} entries) is kept: ", file, input.vocabulary.size());
  note += unknown == 0 ? fmt::format("it has all {} training tokens", all)
                       : fmt::format("it lacks {:.1f} % of the {} training tokens, such as {}",
                                     percent, all, excerpt(example));
  return fmt::format("{}data.train: {}; {}", 2 * unknown > all ? "warning: " : "", note,
                     own_data_counts);
}

std::string scaling_note(const std::string& file, const Scaling& kept, const Scaling& own) {
  return fmt::format(
      "data.train: the scaling of {} is kept: its first value has mean {:.4g} and deviation {:.4g} "
      "there, {:.4g} and {:.4g} here; {}",
      file, kept.mean, kept.deviation, own.mean, own.deviation, own_data_counts);
}

}  // namespace whisker
