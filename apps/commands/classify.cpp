// whisker classify WEIGHTS INPUTS...: the most probable classes of each image, text or row; the
// forecast of a series. Each line of standard input is answered at once. Unreadable inputs are
// reported and skipped; the exit code is 3 when there were any.
#include "apps/commands/classified_images.h"
#include "apps/ranks/launcher.h"
#include "apps/ranks/rank_rounds.h"
#include "apps/ranks/run_ranks.h"
#include "apps/ranks/same_inputs.h"
#include "apps/terminal/command.h"
#include "apps/terminal/facts.h"
#include "apps/terminal/inputs.h"
#include "apps/terminal/start_report.h"
#include "apps/terminal/terminal.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/io/torch_file.h"
#include "data/codec/unsupported_formats.h"
#include "data/images/png_bits.h"
#include "data/sequences/label_reading.h"
#include "train/config/device_name.h"
#include "train/device/autotune_cache.h"
#include "train/device/device_choice.h"
#include "train/experiment.h"
#include "train/inference/image_classifier.h"
#include "train/inference/sequence_classifier.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

namespace whisker {
namespace {

/// With --device auto, up to this many are left to the CPU.
constexpr size_t few_images = 32;

struct ClassifyArguments {
  std::string weights;
  std::vector<std::string> inputs;
  std::vector<std::string> texts;
  int64_t top = 1;
  bool json = false;
  bool jsonl = false;
  bool null = false;
  std::string label_column;  // "": what the file tells
  std::string cam, embeddings;
  bool force = false;
  bool flip = false;
  double threshold = 0;  // below it an input's class is unknown
  std::string device = "auto";
  std::string gpus;
  int64_t batch_size = 16;
  FactOptions facts;
  PrecisionKind precision = PrecisionKind::f32;

  bool reads_stdin() const { return std::ranges::count(inputs, "-") > 0; }
};

std::vector<size_t> most_probable(std::span<const float> probabilities, size_t count) {
  std::vector<size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), size_t{0});
  count = std::min(count, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
      [&](size_t a, size_t b) {
        return probabilities[a] != probabilities[b] ? probabilities[a] > probabilities[b] : a < b;
      });
  order.resize(count);
  return order;
}

bool is_unknown(const Prediction& result, double threshold) {
  return static_cast<double>(std::ranges::max(result.probabilities)) < threshold;
}

void write_json(JsonWriter& json, const char* key, const Prediction& result,
                const std::vector<std::string>& classes, const ClassifyArguments& arguments) {
  json.begin_object().field(result.name.empty() ? "input" : key, result.name);
  if (!result.error.empty()) {
    json.field("error", bare_reason(result.name, result.error)).end_object();
    return;
  }
  if (arguments.threshold > 0) {
    json.field("unknown", is_unknown(result, arguments.threshold));
  }
  json.key("predictions").begin_array();
  for (const size_t c : most_probable(result.probabilities, static_cast<size_t>(arguments.top))) {
    json.begin_object().field("class", classes[c]).field("probability", result.probabilities[c]);
    json.end_object();
  }
  json.end_array().end_object();
}

std::string text_line(const Prediction& result, const std::vector<std::string>& classes,
                      const ClassifyArguments& arguments) {
  std::string line = printable(result.name) + ":";
  if (is_unknown(result, arguments.threshold)) line += "  unknown:";
  for (const size_t c : most_probable(result.probabilities, static_cast<size_t>(arguments.top))) {
    line += fmt::format("  {} {:.4f}", printable(classes[c]), result.probabilities[c]);
  }
  return line + "\n";
}

// Prints predictions as they come; on a rank other than 0, nothing.
class Printer {
 public:
  /// `key` identifies an example: its path, text or position.
  Printer(const ClassifyArguments& arguments, const Network& network, const char* key, bool leads)
      : arguments_(arguments), classes_(network.classes()), key_(key), leads_(leads) {
    if (!arguments_.json) return;
    all_.begin_object().field("schema_version", 2);
    all_.key(network.signature().examples()).begin_array();
  }
  void print(const Prediction& given) {
    Prediction result = given;
    if (result.name.empty()) result.error = "the input is empty";
    failed_ = failed_ || !result.error.empty();
    if (!result.error.empty()) tell_unreadable(result.name, result.error);
    if (arguments_.json) {
      write_json(all_, key_, result, classes_, arguments_);
    } else if (arguments_.jsonl) {
      JsonWriter one;
      write_json(one, key_, result, classes_, arguments_);
      print_result(one.str() + "\n");
    } else if (result.error.empty()) {
      print_result(text_line(result, classes_, arguments_));
    }
  }
  /// The exit code.
  int finish() {
    if (arguments_.json && leads_) print_result(all_.end_array().end_object().str() + "\n");
    return failed_ ? static_cast<int>(ErrorKind::data) : 0;
  }

 private:
  const ClassifyArguments& arguments_;
  const std::vector<std::string>& classes_;
  const char* key_;
  bool leads_;
  bool failed_ = false;
  JsonWriter all_;
};

std::string text_of_floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::vector<float> floats_of(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::ranges::copy(bytes, reinterpret_cast<char*>(values.data()));
  return values;
}

// For rank 0; with a heat map as the JPEG that it becomes.
std::string packed(const Prediction& result, const std::string& heat_map = "") {
  return pack_texts(std::vector<std::string>{result.name, result.error,
                                             text_of_floats(result.probabilities),
                                             text_of_floats(result.embedding), heat_map});
}

Prediction unpacked(const std::string& text, std::string* heat_map = nullptr) {
  std::vector<std::string> parts = unpack_texts(text);
  if (heat_map) *heat_map = std::move(parts[4]);
  return {.name = std::move(parts[0]),
          .probabilities = floats_of(parts[2]),
          .error = std::move(parts[1]),
          .embedding = floats_of(parts[3])};
}

// classify(next, report) over `inputs`, divided among the ranks; print(packed) on rank 0.
template <class Classify, class Pack, class Print>
void classify_divided(RankGroup& ranks, std::span<const std::string> inputs, int64_t batch_size,
                      const Classify& classify, const Pack& pack, const Print& print) {
  RankRounds rounds(ranks, inputs.size(), static_cast<size_t>(batch_size), print);
  const auto next = [&](size_t) {
    const RankRounds::Block block = rounds.next();
    const auto own = inputs.subspan(block.begin, block.size());
    return std::vector<std::string>(own.begin(), own.end());
  };
  classify(next, [&](const Prediction& result) { rounds.add(pack(result)); });
  rounds.finish();
}

// Fails where there is no image at all.
void check_found(const ClassifyArguments& arguments, const InputNames& names, bool any) {
  if (!any) {
    const std::string unsupported = unsupported_formats(names.skipped(), true);
    fail(ErrorKind::data, "classify: no images found in {}: {}{}{}.", quoted_list(arguments.inputs),
         supported_formats, unsupported.empty() ? "" : "; there are ", unsupported);
  }
}

// False for standard input, where an answer may be awaited before the next line comes, and on a
// CPU, whose threads all decode, then all compute.
bool reads_ahead(const Network& network, const InputNames& names, const RankGroup& ranks) {
  return network.arena().device().kind == DeviceKind::cuda && names.count() && ranks.world() == 1;
}

int classify_image_files(const Network& network, InputNames& names, ClassifiedImages& files,
                         const ClassifyArguments& arguments, RankGroup& ranks, int verbosity) {
  Printer printer(arguments, network, "path", ranks.leads());
  bool any = false;
  int64_t dark = 0;
  const ImageClassifierOptions options{
      .batch_size = arguments.batch_size,
      .flip = arguments.flip,
      .embedding = !arguments.embeddings.empty(),
      .heat_map = !arguments.cam.empty(),
      // Whole images wait with their heat maps: one batch.
      .read_ahead = arguments.cam.empty() && reads_ahead(network, names, ranks),
      .dark_pngs = &dark};
  const auto take = [&](const Prediction& found, const std::string& heat_map) {
    any = true;
    Prediction result = found;
    result.name = names.shown(found.name);
    if (result.name != found.name) result.error = bare_reason(found.name, found.error);
    printer.print(result);
    files.add(result, heat_map, network.classes());
  };
  const auto next_names = [&](size_t most) {
    std::vector<std::string> some = names.next(most);
    files.add_inputs(some, names.folders());
    return some;
  };
  if (ranks.world() > 1) {
    const std::vector<std::string> paths = next_names(std::numeric_limits<size_t>::max());
    require_same_paths(ranks, paths, prefixes_of(arguments.inputs));
    any = !paths.empty();
    classify_divided(
        ranks, paths, arguments.batch_size,
        [&](auto next, auto report) { classify_images(network, next, options, report); },
        [&](const Prediction& result) { return packed(result, heat_map_jpeg(result)); },
        [&](const std::string& text) {
          std::string heat_map;
          const Prediction result = unpacked(text, &heat_map);
          take(result, heat_map);
        });
  } else {
    classify_images(network, next_names, options,
                    [&](const Prediction& result) { take(result, heat_map_jpeg(result)); });
  }
  int64_t all_dark = 0;
  for (const auto count : ranks.gather(static_cast<uint64_t>(dark))) {
    all_dark += static_cast<int64_t>(count);
  }
  check_found(arguments, names, any);
  if (ranks.leads() && verbosity >= 0) {
    for (const std::string& note : {dark_pngs_note(all_dark), names.note(), names.use()}) {
      if (!note.empty()) tell(note + "\n");
    }
  }
  const int code = printer.finish();  // also where writing failed
  files.finish();
  return code;
}

int classify_given_texts(const Network& network, const ClassifyArguments& arguments,
                         RankGroup& ranks) {
  for (const std::string& word : arguments.inputs) {
    if (word != "-") {
      fail(ErrorKind::usage,
           "classify: a network trained on texts expects --text TEXT, or - for a text per line of "
           "standard input, got {}",
           excerpt(word));
    }
  }
  Printer printer(arguments, network, "text", ranks.leads());
  if (ranks.world() > 1) {
    classify_divided(
        ranks, arguments.texts, arguments.batch_size,
        [&](auto next, auto report) {
          classify_texts(network, next, arguments.batch_size, report);
        },
        [](const Prediction& result) { return packed(result); },
        [&](const std::string& result) { printer.print(unpacked(result)); });
    return printer.finish();
  }
  InputNames lines(arguments.inputs, {.null = arguments.null});
  std::span<const std::string> given = arguments.texts;
  const auto next = [&](size_t most) {
    if (given.empty()) return lines.next(most);
    const auto first = given.first(std::min(most, given.size()));
    given = given.subspan(first.size());
    return std::vector<std::string>(first.begin(), first.end());
  };
  classify_texts(network, next, arguments.batch_size,
                 [&](const Prediction& result) { printer.print(result); });
  return printer.finish();
}

// The readable rows begin to end - 1.
LabelledRows part_of(const LabelledRows& rows, RankRounds::Block block) {
  LabelledRows part{.features = rows.features, .labels = {}, .values = {}, .places = {}, .bad = {}};
  for (size_t i = block.begin; i < block.end; ++i) {
    part.values.push_back(rows.values[i]);
    part.places.push_back(rows.places[i]);
  }
  return part;
}

LabelledRows rows_of(const std::string& path, const Network& network,
                     const ClassifyArguments& arguments) {
  const auto& input = network.input<RowsInput>();
  RowFile file = read_rows(path);
  const std::string column = arguments.label_column.empty()
                                 ? find_label_column(file, input, network.classes())
                                 : arguments.label_column;
  return labelled_rows(
      std::move(file),
      {.label_column = column, .features = input.features, .max_bad = 1, .header = input.header});
}

int classify_row_files(const Network& network, const ClassifyArguments& arguments, RankGroup& ranks,
                       int verbosity) {
  require_same_files(ranks, arguments.inputs, "INPUTS");
  Printer printer(arguments, network, "place", ranks.leads());
  InputNames names(arguments.inputs, {.null = arguments.null});
  for (auto path = names.next(1); !path.empty(); path = names.next(1)) {
    LabelledRows rows;
    try {
      if (!path[0].empty()) rows = rows_of(path[0], network, arguments);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data || !arguments.reads_stdin()) throw;
      rows.bad.push_back({.place = path[0], .reason = error.what()});
    }
    if (path[0].empty()) rows.bad.push_back({});  // a line of standard input
    for (const std::string& note : rows.notes) {
      if (ranks.leads() && verbosity >= 0) tell(printable(note) + "\n");
    }
    for (const BadRow& row : rows.bad) {
      if (!ranks.leads()) break;
      printer.print({.name = row.place, .probabilities = {}, .error = row.reason});
    }
    RankRounds rounds(ranks, rows.values.size(), static_cast<size_t>(arguments.batch_size),
                      [&](const std::string& result) { printer.print(unpacked(result)); });
    for (auto block = rounds.next(); block.size() > 0; block = rounds.next()) {
      classify_rows(network, part_of(rows, block), arguments.batch_size,
                    [&](const Prediction& result) { rounds.add(packed(result)); });
    }
    rounds.finish();
  }
  return printer.finish();
}

// A line per step ahead: its number, and the value of each target. What was assumed and left out in
// reading is told.
std::string forecast_text(const Network& network, const std::string& path, bool as_json,
                          int verbosity) {
  const auto& input = network.input<SeriesInput>();
  const Series series = read_series(path, input, 1);
  for (const std::string& note : series.notes) {
    if (verbosity >= 0) tell(printable(note) + "\n");
  }
  if (!series.bad.empty() && verbosity >= 0) {
    tell(fmt::format("{}: {} of {} rows cannot be used, the first: {}\n", printable(path),
                     series.bad.size(), series.rows(), printable(series.bad.front().reason)));
  }
  const std::vector<double> values = forecast(network, series);
  if (as_json) {
    JsonWriter json(NonFinite::null);  // exp() of a forecast of logarithms may overflow
    json.begin_object().field("path", path).list("targets", input.targets).list("values", values);
    return json.end_object().str();
  }
  const size_t targets = input.targets.size();
  std::string text;
  for (size_t at = 0; at < values.size(); ++at) {
    if (at % targets == 0) text += fmt::format("{}: +{}", printable(path), at / targets + 1);
    text += fmt::format("  {} {:.6g}", printable(input.targets[at % targets]), values[at]);
    if (at % targets + 1 == targets) text += "\n";
  }
  return text;
}

int forecast_files(const Network& network, const ClassifyArguments& arguments, RankGroup& ranks,
                   int verbosity) {
  require_same_files(ranks, arguments.inputs, "INPUTS");
  const bool as_json = arguments.json || arguments.jsonl;
  std::string together;
  bool failed = false;
  const auto print = [&](const std::string& text) {
    if (arguments.json) {
      together += (together.empty() ? "" : ",") + text;
    } else {
      print_result(text + (arguments.jsonl ? "\n" : ""));
    }
  };
  // Each line of standard input is answered.
  const auto print_error = [&](const std::string& path, const std::string& reason) {
    failed = true;
    tell_unreadable(path, reason);
    if (!as_json) return;
    JsonWriter json;
    json.begin_object().field(path.empty() ? "input" : "path", path);
    print(json.field("error", bare_reason(path, reason)).end_object().str());
  };
  InputNames names(arguments.inputs, {.null = arguments.null});
  if (ranks.world() > 1) {
    const std::vector<std::string> paths = names.next(std::numeric_limits<size_t>::max());
    RankRounds rounds(ranks, paths.size(), 1, print);
    for (auto block = rounds.next(); block.size() > 0; block = rounds.next()) {
      rounds.add(forecast_text(network, paths[block.begin], as_json, verbosity));
    }
    rounds.finish();
  } else {
    for (auto next = names.next(1); !next.empty(); next = names.next(1)) {
      try {
        if (next[0].empty()) fail(ErrorKind::data, "the input is empty");
        print(forecast_text(network, next[0], as_json, verbosity));
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::data || !arguments.reads_stdin()) throw;
        print_error(next[0], error.what());
      }
    }
  }
  if (arguments.json && ranks.leads()) {
    print_result(fmt::format("{{\"schema_version\":2,\"forecasts\":[{}]}}\n", together));
  }
  return failed ? static_cast<int>(ErrorKind::data) : 0;
}

std::string why_not_started(bool images) {
  return fmt::format(
      "device: auto is the CPU: {} take less time than the start of a GPU. Use --device cuda to "
      "use the GPU anyway.\n",
      images ? fmt::format("up to {} images", few_images) : "texts, rows and series");
}

int classify_as_rank(const ClassifyArguments& arguments, RankGroup& ranks, Invocation& invocation) {
  StartReport start;
  start.mark("arguments read");
  Outputs outputs = make_outputs("classify", arguments.force, invocation);
  outputs.add_input(arguments.weights);
  outputs.add_input(arguments.facts.classes);
  for (const std::string& input : arguments.inputs) {
    if (input == "-") {
      outputs.add_input("/dev/stdin");  // may be a file
    } else {
      outputs.add_data(input);
    }
  }
  ClassifiedImages files(outputs, ranks.leads() ? arguments.cam : "",
                         ranks.leads() ? arguments.embeddings : "",
                         common_folder(arguments.inputs));
  const std::string device_name = device_of_rank(arguments.device, ranks);
  const bool alone = ranks.world() == 1 && arguments.gpus.empty();
  if (!ranks.leads()) invocation.verbosity = -1;
  invocation.device_start.emplace(device_name == "auto" && alone ? "cpu" : device_name);
  const GivenFacts given = arguments.facts.read();
  const WeightsInfo info = WeightsInfo::from_file(
      open_weights(weights_file(arguments.weights), given.weights_key), given);
  const bool images = std::holds_alternative<Preprocess>(info.signature.input);
  InputNames names(images ? arguments.inputs : std::vector<std::string>(),
                   {.images = true, .null = arguments.null});
  const size_t count = names.count().value_or(std::numeric_limits<size_t>::max());
  // Starting CUDA costs more than a few inputs take; sequences are short work.
  const bool few = count <= few_images && device_name == "auto" && alone &&
                   arguments.precision != PrecisionKind::f16;  // which a CPU does not compute in
  if (few && invocation.verbosity > 0) tell(why_not_started(images));
  const Device device = few ? cpu_device : chosen_device(device_name, invocation);
  start.mark("device ready");
  load_algorithms(device);
  Network network =
      Network::load(arguments.weights, device, given, compute_dtype(arguments.precision, device));
  require_same_weights(ranks, arguments.weights, network.signature());
  if (count > few_images) network.fix_weights();  // fewer take less time than that
  start.mark("network loaded");
  tell_notes(network.notes(), invocation);
  const InputDescription& input = network.signature().input;
  if (network.signature().task() == Task::language_model) {
    fail(ErrorKind::usage, "classify: a language model has no classes. Use whisker generate.");
  }
  if (!arguments.texts.empty()) network.input<TextInput>();  // refuses anything else
  const bool images_only =
      !arguments.cam.empty() || !arguments.embeddings.empty() || arguments.flip;
  if (images_only && !images) {
    fail(ErrorKind::usage,
         "classify: --cam, --embeddings and --tta are for images, got a network trained on {}.",
         network.signature().examples());
  }
  if (!arguments.label_column.empty() && !std::holds_alternative<RowsInput>(input)) {
    fail(ErrorKind::usage, "classify: --label-column is for rows, got a network trained on {}.",
         network.signature().examples());
  }
  int code = 0;
  if (std::holds_alternative<TextInput>(input)) {
    code = classify_given_texts(network, arguments, ranks);
  } else if (std::holds_alternative<RowsInput>(input)) {
    code = classify_row_files(network, arguments, ranks, invocation.verbosity);
  } else if (std::holds_alternative<SeriesInput>(input)) {
    code = forecast_files(network, arguments, ranks, invocation.verbosity);
  } else {
    code = classify_image_files(network, names, files, arguments, ranks, invocation.verbosity);
  }
  start.mark("inputs classified");
  if (ranks.leads()) save_algorithms(device);
  if (invocation.verbosity > 0) tell(start.text(device));
  return code;
}

// Lines are answered as they come: by one process.
int classify_lines(const ClassifyArguments& arguments, RankGroup& ranks, Invocation& invocation) {
  if (!ranks.leads()) return 0;
  if (invocation.verbosity >= 0 && (ranks.world() > 1 || !arguments.gpus.empty())) {
    tell("classify: '-' is answered line by line, by one process on one device\n");
  }
  RankGroup one;
  return classify_as_rank(arguments, one, invocation);
}

int run_classify(const ClassifyArguments& arguments, Invocation& invocation) {
  const int count = ranks_to_start(arguments.gpus, arguments.device);
  if (count > 0 && !arguments.reads_stdin()) return start_ranks(count);
  RunRanks ranks;
  return ranks.run([&] {
    require_same_command(*ranks.group(), *invocation.command);
    if (arguments.inputs.empty() && arguments.texts.empty()) {
      fail(ErrorKind::usage,
           "classify: expected files, folders, '-' for a list on standard input, or --text TEXT.");
    }
    return arguments.reads_stdin() ? classify_lines(arguments, *ranks.group(), invocation)
                                   : classify_as_rank(arguments, *ranks.group(), invocation);
  });
}

}  // namespace

void add_classify_command(CLI::App& app, Invocation& invocation) {
  CLI::App* classify =
      app.add_subcommand("classify", "Classify images, texts or rows; forecast series");
  auto arguments = std::make_shared<ClassifyArguments>();
  classify->add_option("WEIGHTS", arguments->weights, weights_help)->required();
  classify->add_option("INPUTS", arguments->inputs,
                       "Images: files, folders, or - for stdin: an image, or a list. Texts: - for "
                       "one per line of stdin. Rows, series: files. Each line is answered at once");
  classify->add_option("--text", arguments->texts, "A text to classify; repeatable")
      ->allow_extra_args(false);
  classify->add_flag("--null", arguments->null,
                     "Names or texts on stdin end with NUL, as of find -print0");
  classify->add_option("--label-column", arguments->label_column,
                       "Rows: the label's column, a number from 1 or a name; none: there is none. "
                       "Without it the file tells, or is refused");
  classify->add_option("--top", arguments->top, "Classes per input")->check(CLI::Range(1, 100000));
  CLI::Option* json = classify->add_flag("--json", arguments->json, "One JSON object");
  classify->add_flag("--jsonl", arguments->jsonl, "One JSON object per line")->excludes(json);
  classify
      ->add_option("--threshold", arguments->threshold,
                   "Below this probability the class is unknown")
      ->check(number_range(0.0, 1.0));
  classify
      ->add_option("--cam", arguments->cam,
                   "Images: write where the network sees the class, a JPEG each, to this folder")
      ->check(check_output_name);
  classify
      ->add_option("--embeddings", arguments->embeddings,
                   "Images: write what the last layer takes of each to this CSV file")
      ->check(check_output_name);
  add_force(classify, arguments->force);
  classify->add_flag("--tta", arguments->flip,
                     "Images: average each image and its mirror image (test-time augmentation)");
  classify->add_option("--device", arguments->device, std::string(device_names))
      ->capture_default_str();
  classify->add_option("--gpus", arguments->gpus,
                       "Use so many GPUs of this machine, or all: one process each");
  classify->add_option("--batch-size", arguments->batch_size, "Inputs at a time, on each device")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  add_precision(classify, arguments->precision);
  arguments->facts.add_to(classify);
  set_action(classify, invocation,
             [&invocation, arguments] { return run_classify(*arguments, invocation); });
}

}  // namespace whisker
