// whisker data check|stats|label-issues|generate: a data set before training. Results go to stdout
// as text, or as JSON with --json.
#include "apps/commands/acting_options.h"
#include "apps/commands/data_page.h"
#include "apps/commands/data_report.h"
#include "apps/terminal/command.h"
#include "apps/terminal/facts.h"
#include "apps/terminal/inputs.h"
#include "apps/terminal/sequence_report.h"
#include "apps/terminal/terminal.h"
#include "core/io/counted.h"
#include "core/io/file_ending.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "data/files/split_folders.h"
#include "data/images/png_bits.h"
#include "data/sequences/labelled_text.h"
#include "data/synthetic/generate.h"
#include "data/tools/check.h"
#include "data/tools/statistics.h"
#include "train/resolve_config.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace whisker {
namespace {

// "  3,400 of 7,000" on a terminal while a scan runs.
std::function<void(int64_t, int64_t)> scan_progress(const Invocation& invocation) {
  if (invocation.verbosity < 0 || !is_terminal(stderr)) return {};
  return [](int64_t done, int64_t of) {
    show_bar(done < of ? fmt::format("{} of {}", done, counted(of, "image")) : std::string());
  };
}

struct FolderArguments {
  std::string train, val, label_pattern;
  std::vector<std::string> overrides;
  bool json = false;
  std::string splits = {};  // what settle_splits() found, for the user
  const char* val_name = "data check --val";
  bool val_is_test = false;

  /// The configuration that `train` names, or one made for a folder of texts; nothing for images.
  /// Overrides go with a file only.
  std::optional<Config> sequences() const {
    const std::string ending = file_ending(train);
    if (ending == ".yaml" || ending == ".yml") return read_config(train, overrides);
    if (!overrides.empty()) {
      fail(ErrorKind::usage, "data: '{}': overrides go with a YAML file, not with a folder.",
           overrides[0]);
    }
    std::error_code error;
    const bool folder = std::filesystem::is_directory(train, error);
    if (!folder || !holds_texts(train) || holds_images(train)) return std::nullopt;
    Config config;
    config.data.kind = DataKind::text;
    config.data.train = train;
    config.data.val = val;
    return config;
  }
  // Takes the splits that a folder of images holds; without validation folder the test folder
  // stands for it.
  void settle_splits() {
    if (!val.empty() || label_pattern.find('/') != std::string::npos) return;
    const auto found = find_splits(
        train, {.holds_examples = holds_images, .labels_in_names = !label_pattern.empty()});
    if (!found) return;
    DataConfig data;
    data.label_pattern = label_pattern;
    const bool tests = !found->test.empty() && is_labelled(found->test, found->train, data);
    train = found->train.string();
    val = !found->val.empty() ? found->val.string() : tests ? found->test.string() : "";
    val_name = "data check";
    val_is_test = found->val.empty() && tests;
    splits = fmt::format("splits     training {}", printable(train));
    if (!val.empty()) {
      splits += fmt::format(", {} {}", val_is_test ? "test" : "validation", printable(val));
    }
    if (!found->test.empty() && found->test != val) {
      splits += fmt::format("; not read: {}{}", printable(found->test.string()),
                            tests ? "" : " without labels");
    }
    if (!found->others.empty()) splits += fmt::format("; not used: {}", quoted_list(found->others));
    splits += "\n";
  }
  void add_to(CLI::App& command) {
    command
        .add_option("FOLDER", train,
                    "Folder of class folders, of images or text files; or a configuration of text, "
                    "rows or a series")
        ->required();
    command.add_option("OVERRIDES", overrides, "section.key=value, for a configuration");
    command.add_option("--label-pattern", label_pattern, "Labels from file names: '{label}.*'");
    command.add_flag("--json", json, "Machine-readable result");
  }
};

// `data check` and `data stats` of what a configuration names.
int report_on_sequences(const FolderArguments& arguments, Config config, bool check,
                        const CLI::App& command,
                        const std::function<void(const SequenceReport&)>& write_page = {}) {
  std::error_code error;
  require_acting_options(command,
                         {.kind = config.data.kind,
                          .got = "sequences",
                          .names_data = std::filesystem::is_directory(arguments.train, error)});
  const SequenceReport report = report_sequences(std::move(config), write_page != nullptr);
  JsonWriter json;
  if (arguments.json) {
    json.begin_object().field("schema_version", 2);
    write(json, report);
    json.end_object();
  }
  print_result(arguments.json ? json.str() + "\n" : to_text(report, check));
  if (write_page) write_page(report);
  return check && !report.bad.empty() ? static_cast<int>(ErrorKind::data) : 0;
}

// --- check -----------------------------------------------------------------------------------

constexpr OutputFormat check_page_format{.name = "a page of data check --report",
                                         .is_own = is_data_check_page};

void add_check(CLI::App& data, Invocation& invocation) {
  CLI::App* check = data.add_subcommand("check",
                                        "Find unreadable and duplicate images and other problems; "
                                        "exit code 3 when a run cannot read the data");
  auto arguments = std::make_shared<FolderArguments>();
  arguments->add_to(*check);
  check->add_option("--val", arguments->val, "Validation folder with the same classes");
  const auto page = std::make_shared<std::string>();
  const auto force = std::make_shared<bool>(false);
  check->add_option("--report", *page, "Write one HTML page with sizes, examples and copies")
      ->check(check_output_name);
  add_force(check, *force);
  set_action(check, invocation, [&invocation, arguments, page, force] {
    std::optional<Config> config = arguments->sequences();
    if (!config) arguments->settle_splits();
    Outputs outputs = make_outputs("data check", *force, invocation);
    for (const std::string& path :
         config ? std::vector{arguments->train, config->data.train, config->data.val}
                : std::vector{arguments->train, arguments->val}) {
      if (!path.empty()) outputs.add_data(path);
    }
    std::unique_ptr<OutputFile> file;
    if (!page->empty()) file = outputs.open("--report", *page, check_page_format);
    const auto write_page = [&](const std::string& html) {
      file->write(html);
      outputs.commit(*file, "--report", check_page_format);
    };
    if (config) {
      std::function<void(const SequenceReport&)> write_report;
      if (file) {
        write_report = [&, name = name_of_data(config->data.train)](const SequenceReport& report) {
          write_page(sequence_check_page(name, report));
        };
      }
      return report_on_sequences(*arguments, std::move(*config), true, *invocation.command,
                                 write_report);
    }
    // A problem of one folder does not keep the other from being checked.
    std::vector<std::string> problems;
    const auto open = [&](const std::string& root, const char* name) {
      try {
        return open_image_folder(root, {.label_pattern = arguments->label_pattern,
                                        .name = name,
                                        .on_unreadable = OnUnreadable::list,
                                        .problems = &problems});
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::data || arguments->val.empty()) throw;
        problems.emplace_back(error.what());
        return ImageFolder{.root = root, .classes = {}, .files = {}, .skipped = {}};
      }
    };
    const ImageFolder train = open(arguments->train, "data check");
    std::optional<ImageFolder> val;
    if (!arguments->val.empty()) val = open(arguments->val, arguments->val_name);
    for (const ImageFolder* folder : {&train, val ? &std::as_const(*val) : nullptr}) {
      for (int64_t i = 0; file && folder && i < folder->size(); ++i) {
        outputs.add_data(folder->file(i));
      }
    }
    try {
      if (val) adopt_class_names(train, *val);
    } catch (const Error& error) {
      problems.emplace_back(error.what());
    }
    const ImageFolder* val_folder = val ? &*val : nullptr;
    CheckResult result = check_images(train, val_folder, {.progress = scan_progress(invocation)});
    result.problems.insert(result.problems.begin(), problems.begin(), problems.end());
    JsonWriter json;
    if (arguments->json) write_check(json, result, arguments->splits, train, val_folder);
    print_result(arguments->json ? json.str() + "\n"
                                 : arguments->splits + check_text(result, train, val_folder));
    if (file) {
      write_page(data_check_page({.train = train,
                                  .val = val_folder,
                                  .val_name = arguments->val_is_test ? "test" : "validation"},
                                 result, arguments->splits + said_lines(train, val_folder)));
    }
    const bool sound = result.problems.empty() && result.bad.empty();
    return sound ? 0 : static_cast<int>(ErrorKind::data);
  });
}

// --- stats -----------------------------------------------------------------------------------

void add_stats(CLI::App& data, Invocation& invocation) {
  CLI::App* stats = data.add_subcommand(
      "stats",
      "Class table, sizes, mean and deviation of the channels; exit code 3 when an "
      "image is unreadable");
  auto arguments = std::make_shared<FolderArguments>();
  arguments->add_to(*stats);
  set_action(stats, invocation, [&invocation, arguments] {
    if (auto config = arguments->sequences()) {
      return report_on_sequences(*arguments, std::move(*config), false, *invocation.command);
    }
    arguments->settle_splits();
    const ImageFolder folder = open_image_folder(
        arguments->train, {.label_pattern = arguments->label_pattern, .name = "data stats"});
    const PngBits depth = find_png_bits(folder, -1);  // as training reads them
    const FolderStatistics result = folder_statistics(
        folder, {.rules = {.png_bits = depth.bits}, .progress = scan_progress(invocation)});
    std::string text = arguments->splits;
    for (const std::string& note : folder.notes) {
      text += fmt::format("note       {}\n", printable(note));
    }
    if (const std::string use = folder.use(); !use.empty()) text += "files      " + use + "\n";
    if (const std::string note = depth.note(); !note.empty()) text += "depth      " + note + "\n";
    text += crop_line(folder);
    JsonWriter json;
    if (arguments->json) write_stats(json, result, text);
    print_result(arguments->json ? json.str() + "\n" : text + stats_text(result));
    for (const SkippedFile& file : result.unreadable) {
      tell_unreadable((folder.root / file.path).string(), file.reason);
    }
    return result.unreadable.empty() ? 0 : static_cast<int>(ErrorKind::data);
  });
}

// --- generate --------------------------------------------------------------------------------

void add_generate(CLI::App& data, Invocation& invocation) {
  CLI::App* generate =
      data.add_subcommand("generate", "Draw cat and dog faces, or waves, to train on");
  auto options = std::make_shared<GenerateOptions>();
  generate->add_option("FOLDER", options->folder, "New folder for train/ and val/")
      ->required()
      ->check(check_output_name);
  generate->add_option("--per-class", options->train_per_class, "Training examples per class")
      ->capture_default_str()
      ->check(CLI::Range(1, 1'000'000));
  generate->add_option("--val-per-class", options->val_per_class, "Validation examples per class")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000));
  generate->add_option("--seed", options->seed, "Of every example")
      ->capture_default_str()
      ->check(seed_range());
  const auto waves = std::make_shared<bool>(false);
  generate->add_flag("--waves", *waves,
                     "Sequences: a wave past ten sensors, to the left or to the right");
  set_action(generate, invocation, [options, waves] {
    const uint64_t bytes = *waves ? generate_waves(*options) : generate_images(*options);
    print_result(fmt::format(
        "{} drawn {} ({}) in {}\n", 2 * (options->train_per_class + options->val_per_class),
        *waves ? "waves" : "images", human_bytes(bytes), printable(options->folder.string())));
    return 0;
  });
}

}  // namespace

void add_data_command(CLI::App& app, Invocation& invocation) {
  CLI::App* data = app.add_subcommand("data", "Check, measure or draw images; find wrong labels");
  data->require_subcommand(1);
  add_check(*data, invocation);
  add_stats(*data, invocation);
  add_label_issues(*data, invocation);
  add_generate(*data, invocation);
}

}  // namespace whisker
