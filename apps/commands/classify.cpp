// whisker classify WEIGHTS INPUTS...: the most probable classes of each image, text or row; the
// forecast of a series. Each line of standard input is answered at once. Unreadable inputs are
// reported and skipped; the exit code is 3 when there were any.
#include "apps/commands/acting_options.h"
#include "apps/commands/classified_images.h"
#include "apps/commands/classify_arguments.h"
#include "apps/commands/classify_sequences.h"
#include "apps/commands/packed_predictions.h"
#include "apps/commands/prediction_printer.h"
#include "apps/ranks/launcher.h"
#include "apps/ranks/run_ranks.h"
#include "apps/ranks/same_inputs.h"
#include "apps/terminal/command.h"
#include "apps/terminal/facts.h"
#include "apps/terminal/inputs.h"
#include "apps/terminal/start_report.h"
#include "apps/terminal/terminal.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "data/codec/sample_bits.h"
#include "data/codec/unsupported_formats.h"
#include "train/config/device_name.h"
#include "train/device/autotune_cache.h"
#include "train/device/device_choice.h"
#include "train/experiment.h"
#include "train/inference/image_classifier.h"
#include "train/model/hub_folder.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

namespace whisker {
namespace {

/// With --device auto, up to this many are left to the CPU.
constexpr size_t few_images = 32;

// Fails where there is no image at all.
void check_found(const ClassifyArguments& arguments, const InputNames& names, bool any) {
  if (!any) {
    const std::string unsupported = unsupported_formats(names.skipped(), true);
    const auto heat_maps =
        std::ranges::count(names.skipped(), heat_map_reason, &SkippedFile::reason);
    fail(ErrorKind::data, "classify: no images found in {}: {}{}{}.", quoted_list(arguments.inputs),
         supported_formats, unsupported.empty() ? "" : "; there are ",
         heat_maps > 0 ? fmt::format("{}, {} of them written by classify --cam: name such files",
                                     unsupported, heat_maps)
                       : unsupported);
  }
}

// False for standard input, where an answer may be awaited before the next line comes, and on a
// CPU, whose threads all decode, then all compute.
bool reads_ahead(const Network& network, const InputNames& names, const RankGroup& ranks) {
  return network.arena().device().kind == DeviceKind::cuda && names.count() && ranks.world() == 1;
}

int classify_image_files(const Network& network, InputNames& names, ClassifiedImages& files,
                         const ClassifyArguments& arguments, RankGroup& ranks, int verbosity) {
  PredictionPrinter printer(arguments, network, "path", ranks.leads());
  bool any = false;
  PngBits deep;
  int64_t alpha = 0;
  const bool chosen_bits = arguments.facts.gives("png_bits");
  const ImageClassifierOptions options{
      .batch_size = arguments.batch_size,
      .flip = arguments.flip,
      .embedding = !arguments.embeddings.empty(),
      .heat_map = !arguments.cam.empty(),
      // Whole images wait with their heat maps: one batch.
      .read_ahead = arguments.cam.empty() && reads_ahead(network, names, ranks),
      .clips = chosen_bits,
      .deep_files = &deep,
      .alpha_files = &alpha};
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
  files.add_inputs(names.known(), names.folders());  // all that can be refused now is
  if (ranks.world() > 1) {
    const std::vector<std::string> paths = next_names(std::numeric_limits<size_t>::max());
    require_same_paths(ranks, paths, prefixes_of(arguments.inputs));
    any = !paths.empty();
    classify_divided(
        ranks, paths, arguments.batch_size,
        [&](auto next, auto report) { classify_images(network, next, options, report); },
        [&](const Prediction& result) { return packed(result, files.heat_map(result)); },
        [&](const std::string& text) {
          std::string heat_map;
          const Prediction result = unpacked(text, &heat_map);
          take(result, heat_map);
        });
  } else {
    classify_images(network, next_names, options,
                    [&](const Prediction& result) { take(result, files.heat_map(result)); });
  }
  const int bits = network.preprocess().rules.png_bits;
  const auto of_ranks = [&](auto own) { return ranks.gather(static_cast<uint64_t>(own)); };
  const auto total = [&](int64_t own) {
    const auto all = of_ranks(own);
    return static_cast<int64_t>(std::accumulate(all.begin(), all.end(), uint64_t{0}));
  };
  const int64_t dark = total(deep.dark);
  for (const auto largest : of_ranks(deep.largest)) deep.add(static_cast<uint32_t>(largest), bits);
  deep.read = total(deep.read);
  deep.dark = dark;
  alpha = total(alpha);
  check_found(arguments, names, any);
  if (ranks.leads() && verbosity >= 0) {
    const std::string transparent =
        alpha == 0 ? "" : counted(alpha, "image has", "images have") + alpha_note;
    for (const std::string& note :
         {chosen_bits ? "" : deep.dark_note(bits), transparent, names.note(), names.use()}) {
      if (!note.empty()) tell(note + "\n");
    }
  }
  const int code = printer.finish();  // also where writing failed
  files.finish();
  return code;
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
  const std::string made_by =
      arguments.cam.empty() ? std::string() : heat_map_weights(arguments.weights);
  ClassifiedImages files(outputs, ranks.leads() ? arguments.cam : "",
                         ranks.leads() ? arguments.embeddings : "", common_folder(arguments.inputs),
                         made_by);
  const std::string device_name = device_of_rank(arguments.device, ranks);
  const bool alone = ranks.world() == 1 && arguments.gpus.empty();
  if (!ranks.leads()) invocation.verbosity = -1;
  invocation.device_start.emplace(device_name == "auto" && alone ? "cpu" : device_name);
  const GivenFacts given = arguments.facts.read();
  std::optional<SafetensorsFile> weights =
      open_described_weights(arguments.weights, given.weights_key);
  const bool images =
      std::holds_alternative<Preprocess>(WeightsInfo::from_file(*weights, given).signature.input);
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
      Network::load(*weights, device, given, compute_dtype(arguments.precision, device));
  weights.reset();
  require_same_weights(ranks, arguments.weights, network.signature());
  if (count > few_images) network.fix_weights();  // fewer take less time than that
  start.mark("network loaded");
  tell_notes(network.notes(), invocation);
  const InputDescription& input = network.signature().input;
  if (network.signature().task() == Task::language_model) {
    fail(ErrorKind::usage, "classify: a language model has no classes. Use whisker generate.");
  }
  OptionUse use = use_of(network.signature());
  use.reads_stdin = arguments.reads_stdin();
  require_acting_options(*invocation.command, use);
  int code = 0;
  if (std::holds_alternative<TextInput>(input)) {
    code = classify_given_texts(network, arguments, ranks, invocation.verbosity);
  } else if (std::holds_alternative<RowsInput>(input)) {
    code = classify_row_files(network, arguments, ranks, invocation.verbosity);
  } else if (std::holds_alternative<SeriesInput>(input)) {
    code = forecast_files(network, arguments, ranks, invocation.verbosity);
  } else {
    if (arguments.flip && !arguments.embeddings.empty()) {
      tell_notes({"classify --embeddings: those of the images as they are; --tta averages the "
                  "probabilities alone"},
                 invocation);
    }
    code = classify_image_files(network, names, files, arguments, ranks, invocation.verbosity);
  }
  start.mark("inputs classified");
  if (ranks.leads()) tell_notes(save_algorithms(device), invocation);
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
  classify
      ->add_option("--batch-size,--batch", arguments->batch_size,
                   "Inputs at a time, on each device")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  add_precision(classify, arguments->precision);
  arguments->facts.add_to(classify);
  set_action(classify, invocation, [&invocation, arguments] {
    arguments->weights = weights_in(arguments->weights);
    return run_classify(*arguments, invocation);
  });
}

}  // namespace whisker
