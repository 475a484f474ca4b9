// whisker generate WEIGHTS --prompt TEXT: continues a text with a language model.
#include "apps/terminal/command.h"
#include "apps/terminal/facts.h"
#include "apps/terminal/inputs.h"
#include "train/config/device_name.h"
#include "train/inference/text_generator.h"
#include "train/model/hub_folder.h"

namespace whisker {

void add_generate_command(CLI::App& app, Invocation& invocation) {
  struct Arguments {
    std::string weights, prompt;
    std::string device = "cpu";  // a token at a time is too little for a GPU
    GenerationOptions options;
  };
  CLI::App* generate = app.add_subcommand("generate", "Generate text with a language model");
  auto arguments = std::make_shared<Arguments>();
  generate->add_option("WEIGHTS", arguments->weights, "Weights file (safetensors)")->required();
  generate->add_option("--prompt", arguments->prompt, "Beginning of the text")->required();
  generate->add_option("--length", arguments->options.length, "Tokens to write")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{10'000'000}));
  generate
      ->add_option(
          "--temperature", arguments->options.temperature,
          "Divides the logits: smaller is more predictable, 0: always the most probable token")
      ->capture_default_str()
      ->check(number_range(0.0, 100.0));
  generate->add_option("--top-k", arguments->options.top_k, "Draw from the k most probable only")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 28));
  generate->add_option("--seed", arguments->options.seed, "Seed of the random draws")
      ->capture_default_str()
      ->check(seed_range());
  generate->add_option("--device", arguments->device, std::string(device_names))
      ->capture_default_str();
  set_action(generate, invocation, [&invocation, arguments] {
    const Network network =
        Network::load(weights_in(arguments->weights), chosen_device(arguments->device, invocation));
    tell_notes(network.notes(), invocation);
    std::string text = arguments->prompt;
    generate_text(network, arguments->prompt, arguments->options,
                  [&](std::string_view piece) { text += piece; });
    const auto& input = network.input<TextInput>();
    TokenCounts prompt;
    input.count(arguments->prompt, prompt);
    if (const std::string note = input.unknown_note(prompt); !note.empty()) {
      tell_notes({"--prompt: " + note}, invocation);
    }
    print_result(text + "\n");
    return 0;
  });
}

}  // namespace whisker
