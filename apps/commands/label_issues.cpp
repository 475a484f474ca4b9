// whisker data label-issues DIR --weights W: likely label errors, by what a network's features say.
#include "apps/commands/label_issues.h"

#include "apps/commands/data_page.h"
#include "apps/terminal/facts.h"
#include "apps/terminal/inputs.h"
#include "apps/terminal/terminal.h"
#include "core/draw/markup.h"
#include "core/io/counted.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "data/files/csv.h"
#include "data/images/image_folder.h"
#include "train/config/device_name.h"
#include "train/device/autotune_cache.h"
#include "train/inference/image_classifier.h"
#include "train/inference/label_issues.h"
#include "train/model/hub_folder.h"
#include "train/report/report_sections.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace whisker {
namespace {

constexpr OutputFormat sheet_format{.name = "a page of data label-issues",
                                    .is_own = is_label_issues_page};

struct LabelIssueArguments {
  std::string folder, weights, label_pattern, page;
  std::string device = "auto";
  FactOptions facts;
  uint64_t seed = 0;
  bool json = false, force = false;
};

struct FolderFeatures {
  std::vector<int64_t> indices;  // of files that could be read
  std::vector<float> values;     // (indices, d)
};

FolderFeatures features_of(const Network& network, const ImageFolder& images,
                           const Invocation& invocation) {
  FolderFeatures features;
  int64_t next = 0, done = 0;
  const bool shows = invocation.verbosity >= 0 && is_terminal(stderr);
  classify_images(
      network,
      [&](size_t most) {
        std::vector<std::string> names;
        while (names.size() < most && next < images.size()) {
          names.push_back(images.file(next++).string());
        }
        return names;
      },
      {.embedding = true},
      [&](const Prediction& result) {
        if (result.error.empty()) {
          features.indices.push_back(done);
          features.values.insert(features.values.end(), result.embedding.begin(),
                                 result.embedding.end());
        } else {
          tell_unreadable(result.name, bare_reason(result.name, result.error));
        }
        ++done;
        if (shows) {
          show_bar(done < images.size()
                       ? fmt::format("{} of {}", done, counted(images.size(), "image"))
                       : std::string());
        }
      });
  return features;
}

// Leaves out what no fold could judge, and says so; nothing for no class.
void leave_out_small_classes(FolderFeatures& features, const ImageFolder& images,
                             const Invocation& invocation) {
  std::vector<int64_t> counts(images.classes.size());
  const auto label = [&](int64_t index) {
    return static_cast<size_t>(images.files[static_cast<size_t>(index)].label);
  };
  for (const int64_t index : features.indices) ++counts[label(index)];
  std::vector<std::string> small;
  int64_t judged = 0, left_out = 0;
  for (size_t c = 0; c < counts.size(); ++c) {
    if (counts[c] >= label_folds) {
      ++judged;
    } else {
      small.push_back(images.classes[c]);
      left_out += counts[c];
    }
  }
  if (judged < 2) {
    fail(ErrorKind::data,
         "data label-issues: expected two classes of {} images or more, one for each fold, got {}.",
         label_folds, judged);
  }
  if (small.empty()) return;
  tell_notes(
      {fmt::format("{} of {} with fewer than {} images, one for each fold, {} not judged: "
                   "{}",
                   counted(left_out, "image"), counted(std::ssize(small), "class", "classes"),
                   label_folds, left_out == 1 ? "is" : "are", quoted_list(small))},
      invocation);
  const size_t width = features.values.size() / std::max<size_t>(1, features.indices.size());
  FolderFeatures kept;
  for (size_t i = 0; i < features.indices.size(); ++i) {
    if (counts[label(features.indices[i])] < label_folds) continue;
    kept.indices.push_back(features.indices[i]);
    const auto row = std::span(features.values).subspan(i * width, width);
    kept.values.insert(kept.values.end(), row.begin(), row.end());
  }
  features = std::move(kept);
}

std::string issues_csv(const ImageFolder& images, std::span<const LabelIssue> issues) {
  std::string text =
      "path,label,suggested,label_probability,suggested_probability,neighbours_with_label\n";
  for (const LabelIssue& one : issues) {
    text +=
        fmt::format("{},{},{},{:.4f},{:.4f},{}\n", csv_field(images.file(one.example).string()),
                    csv_field(images.classes[static_cast<size_t>(one.label)]),
                    csv_field(images.classes[static_cast<size_t>(one.suggested)]),
                    one.label_probability, one.suggested_probability, one.neighbours_with_label);
  }
  return text;
}

std::string issues_json(const ImageFolder& images, std::span<const LabelIssue> issues,
                        int64_t judged, uint64_t seed) {
  JsonWriter json;
  json.begin_object().field("schema_version", 2).field("images", judged);
  json.field("folds", label_folds).field("neighbours", label_neighbours);
  json.field("seed", static_cast<int64_t>(seed));
  json.list("issues", issues, [&](const LabelIssue& one) {
    json.begin_object().field("path", images.file(one.example).string());
    json.field("label", images.classes[static_cast<size_t>(one.label)]);
    json.field("suggested", images.classes[static_cast<size_t>(one.suggested)]);
    json.field("label_probability", static_cast<double>(one.label_probability));
    json.field("suggested_probability", static_cast<double>(one.suggested_probability));
    json.field("neighbours_with_label", one.neighbours_with_label).end_object();
  });
  return json.end_object().str() + "\n";
}

std::string issues_page(const ImageFolder& images, std::span<const LabelIssue> issues,
                        const std::string& said, const std::string& about) {
  ContactSheet sheet;
  for (const LabelIssue& one : issues) {
    sheet.add(
        images.file(one.example), images.files[static_cast<size_t>(one.example)].path,
        fmt::format("label {} {:.0f} %, rather {} {:.0f} %",
                    images.classes[static_cast<size_t>(one.label)], 100 * one.label_probability,
                    images.classes[static_cast<size_t>(one.suggested)],
                    100 * one.suggested_probability));
  }
  std::string html = sheet.take();
  if (html.empty()) html = report_note("None.");
  if (sheet.left_out() > 0) {
    html +=
        report_note(fmt::format("{} are left out, as the page would become too large; the list "
                                "has all.",
                                counted(sheet.left_out(), "image")));
  }
  return report_page("Likely label errors", report_note(said) + dated_note(about),
                     report_section("issues", "The least probable labels first", html),
                     label_issues_mark);
}

int run_label_issues(LabelIssueArguments& arguments, Invocation& invocation) {
  Outputs outputs = make_outputs("data label-issues", arguments.force, invocation);
  outputs.add_input(arguments.weights);
  outputs.add_input(arguments.facts.classes);
  outputs.add_data(arguments.folder);
  std::unique_ptr<OutputFile> page;
  if (!arguments.page.empty()) page = outputs.open("-o", arguments.page, sheet_format);
  const ImageFolder images = open_image_folder(
      arguments.folder, {.label_pattern = arguments.label_pattern, .name = "data label-issues"});
  if (page) {
    for (int64_t i = 0; i < images.size(); ++i) outputs.add_data(images.file(i));
  }
  tell_notes(images.notes, invocation);
  if (const std::string use = images.use(); !use.empty()) tell_notes({use}, invocation);
  const Device device = chosen_device(arguments.device, invocation);
  load_algorithms(device);
  Network network = Network::load(arguments.weights, device, arguments.facts.read());
  tell_notes(network.notes(), invocation);
  network.preprocess();  // refuses other networks
  network.fix_weights();
  FolderFeatures features = features_of(network, images, invocation);
  const bool all_read = std::ssize(features.indices) == images.size();
  leave_out_small_classes(features, images, invocation);
  std::vector<int64_t> labels;
  for (const int64_t index : features.indices) {
    labels.push_back(images.files[static_cast<size_t>(index)].label);
  }
  std::vector<LabelIssue> issues =
      find_label_issues(features.values, labels, std::ssize(images.classes), arguments.seed);
  for (LabelIssue& one : issues) one.example = features.indices[static_cast<size_t>(one.example)];
  const std::string said = fmt::format(
      "{} of {} may have a wrong label: another class is at least {} times as probable by a linear "
      "head trained on the other folds of {} (--seed {}), and fewer than half of the {} nearest "
      "neighbours have the label",
      grouped(std::ssize(issues)), counted(std::ssize(labels), "image"), label_odds, label_folds,
      arguments.seed, std::min(label_neighbours, std::ssize(labels) - 1));
  tell_notes({said}, invocation);
  const std::string result = arguments.json
                                 ? issues_json(images, issues, std::ssize(labels), arguments.seed)
                                 : issues_csv(images, issues);
  print_result(result);
  if (page) {
    const std::string about = fmt::format("Data {}; weights {}; judged", name_of_data(images.root),
                                          weights_name(arguments.weights));
    page->write(issues_page(images, issues, said + ".", about));
    outputs.commit(*page, "-o", sheet_format);
  }
  tell_notes(save_algorithms(device), invocation);
  return all_read ? 0 : static_cast<int>(ErrorKind::data);
}

}  // namespace

void add_label_issues(CLI::App& data, Invocation& invocation) {
  CLI::App* command = data.add_subcommand(
      "label-issues",
      "List images that probably have a wrong label, by the features of a trained network");
  auto arguments = std::make_shared<LabelIssueArguments>();
  command->add_option("FOLDER", arguments->folder, "Folder of class folders")->required();
  command->add_option("--weights", arguments->weights, weights_help)->required();
  command->add_option("-o,--output", arguments->page, "Write the images as one HTML page, too")
      ->check(check_output_name);
  command->add_option("--label-pattern", arguments->label_pattern,
                      "Labels from file names: '{label}.*'");
  command->add_option("--seed", arguments->seed, "Of the division into folds")
      ->capture_default_str()
      ->check(seed_range());
  command->add_flag("--json", arguments->json, "Machine-readable result");
  command->add_option("--device", arguments->device, std::string(device_names))
      ->capture_default_str();
  add_force(command, arguments->force);
  arguments->facts.add_to(command);
  set_action(command, invocation, [&invocation, arguments] {
    arguments->weights = weights_in(arguments->weights);
    return run_label_issues(*arguments, invocation);
  });
}

}  // namespace whisker
