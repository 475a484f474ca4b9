// whisker models [NAME]: the presets, what is known of their pretrained weights, and where these
// are.
#include "apps/terminal/command.h"
#include "apps/terminal/pretrained_files.h"
#include "apps/terminal/terminal.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/io/text_table.h"
#include "layers/builder/model_builder.h"
#include "layers/builder/presets.h"
#include "layers/weights/pretrained.h"
#include "train/config/preprocess_config.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/ranges.h>

namespace whisker {
namespace {

namespace fs = std::filesystem;

struct ModelRow {
  std::string name;
  std::string library;                ///< whose names its tensors have; "" for Whisker's own
  std::optional<Preprocess> images;   ///< that ImageNet weights expect
  int64_t classes = 0, side = 0;      ///< that `parameters` are for; 0: of sequences
  std::optional<int64_t> parameters;  ///< nothing where the data decide
  const PretrainedWeights* weights = nullptr;
  fs::path file;  ///< of the weights; empty: not here
};

ModelRow model_row(const std::string& name) {
  ModelRow row{.name = name,
               .library = "",
               .images = preset_preprocess(name),
               .parameters = {},
               .weights = find_pretrained(name),
               .file = {}};
  if (row.weights) row.file = downloaded(*row.weights);
  if (row.images) row.library = preset_library(preset_sections(*find_preset(name)));
  if (reads_rows(*find_preset(name))) return row;  // the features of each step decide
  row.side = row.images ? row.images->output().height : DataConfig{}.image_size;
  row.classes = row.images ? 1000 : 2;
  const Model model = build_model(YamlNode::parse(name, "preset " + name),
                                  {.input = {1, row.side, row.side, 3}, .classes = row.classes});
  row.parameters = 0;
  for (const auto& parameter : model.net->parameters()) {
    if (!parameter->is_buffer()) *row.parameters += parameter->shape().count();
  }
  return row;
}

// Those whose name, or other name, is `wanted`, in which `*` is any text; all for "".
std::vector<ModelRow> model_rows(const std::string& wanted) {
  std::vector<ModelRow> rows;
  const Preset* one = find_preset(wanted);
  const PretrainedWeights* weights = find_pretrained(wanted);
  if (one || weights) {
    rows.push_back(model_row(one ? std::string(one->name) : weights->preset));
    return rows;
  }
  for (const std::string& name : preset_names()) {
    if (wanted.empty() || matches_pattern(wanted, name)) rows.push_back(model_row(name));
  }
  if (rows.empty()) fail_unknown_model("models", wanted);
  return rows;
}

// "ImageNet-21k, ImageNet-1k" as "21k, 1k".
std::string short_data(std::string text) {
  for (const std::string_view left_out : {"ImageNet-", "-300M"}) {
    for (size_t at; (at = text.find(left_out)) != std::string::npos;) {
      text.erase(at, left_out.size());
    }
  }
  return text;
}

// "3.5M": millions, with three digits.
std::string millions(int64_t count) {
  const double number = static_cast<double>(count) / 1e6;
  return fmt::format("{:.{}f}M", number, number < 9.995 ? 2 : number < 99.95 ? 1 : 0);
}

std::string table_of(const std::vector<ModelRow>& rows) {
  TextTable table({"model", ">params", ">px", "ImageNet", ">top-1", "licence", ">MiB", "here"});
  for (const ModelRow& row : rows) {
    const PretrainedWeights* weights = row.weights;
    table.add({row.name, row.parameters ? millions(*row.parameters) : "",
               row.side > 0 ? std::to_string(row.side) : "",
               weights ? short_data(weights->trained_on) : "",
               weights && weights->top1 ? fmt::format("{:.1f}", *weights->top1) : "",
               weights ? weights->licence : "",
               weights && weights->mib ? fmt::format("{:.0f}", *weights->mib) : "",
               row.file.empty() ? "" : "yes"});
  }
  return table.str("", table_width());
}

std::string images_text(const Preprocess& images) {
  return fmt::format(
      "{} pixels of a short side of {}, {}; mean {:.3f}, std {:.3f}", images.output().height,
      images.resize_short > 0 ? images.resize_short : images.size.height,
      images.interpolation == Interpolation::bicubic ? "bicubic" : "bilinear",
      fmt::join(images.normalisation.mean, " "), fmt::join(images.normalisation.std, " "));
}

std::string check_of(const PretrainedWeights& weights) {
  if (weights.sha256.size() == 64) return "SHA-256 " + weights.sha256;
  if (weights.sha256.empty()) return "the SHA-256 that its server states";
  return fmt::format("the first 8 digits of its SHA-256, {}, from its name there", weights.sha256);
}

// What `whisker models NAME` says.
std::string details_of(const ModelRow& row) {
  std::string text = row.name + "\n";
  const auto say = [&text](std::string_view what, const std::string& value) {
    if (!value.empty()) text += fmt::format("  {:<10}  {}\n", what, value);
  };
  if (row.parameters) {
    say("parameters",
        fmt::format("{} at {} classes and {} pixels", *row.parameters, row.classes, row.side));
  }
  if (row.images) say("images", images_text(*row.images));
  const PretrainedWeights* weights = row.weights;
  if (!weights) return text + "  no pretrained weights are known\n";
  say("weights", fmt::format("{} of {}", weights->tag, weights->source));
  say("trained on", weights->trained_on);
  if (weights->top1) say("top-1", fmt::format("{} % on ImageNet", *weights->top1));
  say("licence", weights->licence);
  say("file", weights->file);
  if (weights->mib) say("size", fmt::format("{} MiB", *weights->mib));
  say("from", weights->url);
  say("checked by", check_of(*weights));
  say("here", row.file.empty() ? "no" : printable(row.file.string()));
  if (row.file.empty()) {
    text += fmt::format("download it:\n  {}\n", fetch_command(*weights));
  }
  return text + fmt::format("fine-tune it:\n  whisker train --data DIR --model {} --pretrained\n",
                            row.name);
}

void write(JsonWriter& json, const ModelRow& row) {
  json.begin_object().field("name", row.name);
  if (row.side > 0) {
    json.field("parameters", row.parameters).field("classes", row.classes);
    json.field("image_size", row.side);
  }
  if (row.images) json.field("library", row.library);
  if (const PretrainedWeights* weights = row.weights) {
    const auto known = [](const std::string& text) {
      return text.empty() ? std::nullopt : std::optional(text);
    };
    json.key("pretrained").begin_object().field("source", weights->source);
    json.field("tag", weights->tag).field("trained_on", weights->trained_on);
    json.field("top1", weights->top1).field("licence", known(weights->licence));
    json.field("mib", weights->mib).field("file", weights->file).field("url", weights->url);
    json.field("sha256", known(weights->sha256)).field("path", known(row.file.string()));
    json.field("command", fetch_command(*weights)).end_object();
  }
  json.end_object();
}

std::string json_of(const std::vector<ModelRow>& rows) {
  JsonWriter json;
  json.begin_object().field("schema_version", 1).field("folder", weights_folder().string());
  json.list("models", rows, [&](const ModelRow& row) { write(json, row); });
  return json.end_object().str() + "\n";
}

}  // namespace

void add_models_command(CLI::App& app, Invocation& invocation) {
  CLI::App* models = app.add_subcommand(
      "models", "List the presets and their pretrained weights; with NAME, how to get those");
  struct ModelsArguments {
    std::string name;
    bool json = false;
  };
  auto arguments = std::make_shared<ModelsArguments>();
  models->add_option("NAME", arguments->name,
                     "A preset, or a pattern in which * is any text: 'resnet*'");
  models->add_flag("--json", arguments->json, "One JSON object");
  set_action(models, invocation, [arguments, &invocation] {
    const std::vector<ModelRow> rows = model_rows(arguments->name);
    if (arguments->json) {
      print_result(json_of(rows));
    } else if (rows.size() == 1 && arguments->name.find('*') == std::string::npos) {
      print_result(details_of(rows[0]));
    } else {
      print_result(table_of(rows));
      if (invocation.verbosity >= 0) {
        tell(
            fmt::format("Parameters are of 1000 classes; of 2 where images have 128 px. 'whisker "
                        "models NAME' says more, and how to get the weights. They lie in {}\n",
                        printable(weights_folder().string())));
      }
    }
    return 0;
  });
}

}  // namespace whisker
