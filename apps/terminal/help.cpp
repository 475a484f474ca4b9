#include "apps/terminal/help.h"

#include "core/io/text_table.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace whisker {
namespace {

constexpr size_t help_width = 80;
constexpr size_t names_width = 28;  // of the column of options

// What follows an option that is no number and has no list of words.
constexpr std::pair<std::string_view, std::string_view> value_names[] = {
    {"--batch-size", "N"},
    {"--cam", "DIR"},
    {"--classes", "FILE"},
    {"--csv", "FILE"},
    {"--data", "DIR"},
    {"--device", "DEVICE"},
    {"--embeddings", "FILE"},
    {"--epochs", "N"},
    {"--expression", "FORMULA"},
    {"--gpus", "N"},
    {"--imgsz", "N"},
    {"--init", "FILE"},
    {"--input", "KEY=VALUE"},
    {"--label-column", "COLUMN"},
    {"--label-pattern", "PATTERN"},
    {"--lr", "X"},
    {"--model", "NAME"},
    {"--name", "NAME"},
    {"--out", "FILE"},
    {"--output", "FILE"},
    {"--patience", "N"},
    {"--positive-class", "NAME"},
    {"--predictions", "FILE"},
    {"--repeat", "DIR"},
    {"--report", "FILE"},
    {"--resume", "DIR"},
    {"--script", "KEYS"},
    {"--text-column", "COLUMN"},
    {"--val", "DIR"},
    {"--weights", "FILE"},
    {"--weights-key", "KEY"},
    {"--workers", "N"},
};

struct Examples {
  std::string_view command, first, second;
};

constexpr Examples examples[] = {
    {"", "whisker train --data photos --pretrained",
     "whisker classify runs/photos/best.safetensors new.jpg"},
    {"train", "whisker train --data photos --pretrained --epochs 20",
     "whisker train cats.yaml data.train=photos --batch-size 64 optimizer.kind=adamw"},
    {"evaluate", "whisker evaluate runs/photos/best.safetensors photos/test",
     "whisker evaluate best.safetensors test --report test.html --worst 50"},
    {"classify", "whisker classify runs/photos/best.safetensors new/ --top 3",
     "whisker classify resnet18.pth cat.jpg --json"},
    {"bench", "whisker bench resnet18 --batch-size 1,8,32 --inference",
     "whisker bench cats.yaml device=cuda precision=bf16"},
    {"export", "whisker export runs/photos/best.safetensors -o photos.onnx",
     "whisker export best.safetensors -o photos.onnx --preprocess --probabilities"},
    {"generate", "whisker generate runs/verse/best.safetensors --prompt 'ROMEO:'",
     "whisker generate best.safetensors --prompt 'O ' --length 500 --temperature 0.7"},
    {"import", "whisker import resnet18.pth -o resnet18.safetensors",
     "whisker import net.bin -o net.safetensors --model timm/resnet18"},
    {"report", "whisker report runs/cats", "whisker report runs/cats runs/dogs -o both.html"},
    {"summary", "whisker summary resnet18", "whisker summary cats.yaml data.image_size=64 --json"},
    {"data", "whisker data check photos", "whisker data generate drawn --per-class 100"},
    {"data check", "whisker data check photos",
     "whisker data check photos/train --val photos/val --json"},
    {"data stats", "whisker data stats photos",
     "whisker data stats pets --label-pattern '{label}_#.*'"},
    {"data label-issues", "whisker data label-issues photos --weights resnet18.pth",
     "whisker data label-issues photos --weights resnet18.pth -o labels.html"},
    {"data generate", "whisker data generate drawn",
     "whisker data generate drawn --per-class 100 --seed 7"},
    {"study", "whisker study step mlp", "whisker study trace resnet18"},
    {"study step", "whisker study step mlp --script 'b n n'",
     "whisker study step -e 'mean((x @ w)^2)' x='ones(1,2)' w='randn(2,3)'"},
    {"study why", "whisker study why mlp w1 0,2",
     "whisker study why -e 'sum(relu(x @ w))' x='ones(1,2)' w='randn(2,3)' w"},
    {"study memory", "whisker study memory resnet18 --batch-size 8",
     "whisker study memory cats.yaml -o memory.svg"},
    {"study roofline", "whisker study roofline resnet18 --batch-size 8",
     "whisker study roofline cats.yaml --layers -o roofline.svg"},
    {"study gradient-flow", "whisker study gradient-flow runs/photos",
     "whisker study gradient-flow runs/photos -o flow.html"},
    {"study nan", "whisker study nan runs/photos", "whisker study nan runs/photos device=cpu"},
    {"study compare", "whisker study compare mlp precision=bf16",
     "whisker study compare step.safetensors torch.safetensors"},
    {"study record", "whisker study record cats.yaml -o step.safetensors",
     "whisker study record mlp -o mlp.safetensors"},
    {"study trace", "whisker study trace resnet18 --batch-size 8",
     "whisker study trace cats.yaml device=cuda --json"},
    {"study graph", "whisker study graph resnet50 -o step.html",
     "whisker study graph cats.yaml --batch-size 4 -o tape.svg"},
    {"study gradcheck", "whisker study gradcheck conv2d",
     "whisker study gradcheck cats.yaml --elements 5"},
    {"study exercises", "whisker study exercises", "whisker study exercises | grep next"},
    {"study grade", "whisker study grade chain_rule",
     "whisker study grade chain_rule my_answer.cpp --watch"},
    {"config", "whisker config print cats.yaml train.epochs=3", "whisker config keys"},
    {"config print", "whisker config print cats.yaml",
     "whisker config print cats.yaml train.epochs=3 optimizer.lr=0.01"},
    {"config schema", "whisker config schema > whisker.schema.json",
     "whisker config schema cats.yaml"},
    {"config keys", "whisker config keys", "whisker config keys | grep lr"},
    {"devices", "whisker devices --check", "whisker devices --watch 5 --csv"},
    {"models", "whisker models 'resnet*'", "whisker models mobilenet_v2 --json"},
    {"version", "whisker version", "whisker version --json"},
    {"completion", "whisker completion zsh > ~/.zfunc/_whisker",
     "whisker completion bash > ~/.local/share/bash-completion/completions/whisker"},
    {"completion bash", "source <(whisker completion bash)",
     "whisker completion bash > ~/.local/share/bash-completion/completions/whisker"},
    {"completion zsh", "source <(whisker completion zsh)",
     "whisker completion zsh > ~/.zfunc/_whisker"},
    {"completion fish", "whisker completion fish | source",
     "whisker completion fish > ~/.config/fish/completions/whisker.fish"},
};

// The name and, in a column of its own, the description.
std::string row_of(const std::string& name, const std::string& description) {
  const std::string next_line = fmt::format("\n{:{}}", "", names_width);
  const bool beside = name.size() + 4 <= names_width;
  const auto lines = wrap_text(description, help_width - names_width, CutWords::never);
  return fmt::format("  {:<{}}{}{}\n", name, beside ? names_width - 2 : 0, beside ? "" : next_line,
                     fmt::join(lines, next_line));
}

class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    return "\n" + CLI::Formatter::make_usage(app, std::move(name));
  }
  std::string make_description(const CLI::App* app) const override {
    return fmt::format(
        "{}\n", fmt::join(wrap_text(app->get_description(), help_width, CutWords::never), "\n"));
  }
  std::string make_subcommand(const CLI::App* sub) const override {
    return row_of(sub->get_name(), sub->get_description());
  }
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    if (is_positional) {
      const bool several = option->get_expected_max() > 1;
      return row_of(option->get_name(true) + (several ? " ..." : ""), option->get_description());
    }
    std::string name;
    for (const std::string& one : CLI::detail::split(option->get_name(false, true), ',')) {
      name += (name.empty() ? "" : ", ") + one;
    }
    const std::string value = value_name(*option);
    if (!value.empty()) {
      name += option->get_items_expected_min() == 0 ? fmt::format(" [{}]", value) : " " + value;
    }
    return row_of(name, option->get_description() + notes_on(*option));
  }

 private:
  // What CLI11 would put behind the name.
  static std::string notes_on(const CLI::Option& option) {
    std::vector<std::string> notes;
    if (option.get_required()) notes.emplace_back("required");
    if (!option.get_default_str().empty()) notes.push_back("default " + option.get_default_str());
    for (const CLI::Option* other : option.get_needs())
      notes.push_back("with " + other->get_name());
    for (const CLI::Option* other : option.get_excludes()) {
      notes.push_back("not with " + other->get_name());
    }
    return notes.empty() ? "" : fmt::format(" ({})", fmt::join(notes, "; "));
  }
};

void add_examples_of(CLI::App& app, const std::string& path) {
  for (const Examples& example : examples) {
    if (example.command != path) continue;
    app.footer(fmt::format("Examples:\n  {}\n  {}", example.first, example.second));
  }
  for (CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    add_examples_of(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name());
  }
}

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() {
  return std::make_shared<HelpFormatter>();
}

void add_examples(CLI::App& app) {
  add_examples_of(app, "");
}

std::string value_name(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const std::string type = option.get_type_name();
  const size_t open = type.find('{'), close = type.find('}');
  if (open != std::string::npos && close != std::string::npos) {
    std::string words = type.substr(open + 1, close - open - 1);
    std::ranges::replace(words, ',', '|');
    return words;
  }
  if (type.starts_with("INT") || type.starts_with("UINT")) return "N";
  if (type.starts_with("FLOAT")) return "X";
  for (const auto& [name, value] : value_names) {
    if (option.get_name() == name) return std::string(value);
  }
  return "TEXT";
}

}  // namespace whisker
