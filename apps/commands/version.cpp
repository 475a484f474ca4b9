// whisker version: the program's version and build.
#include "core/version.h"

#include "apps/devices/gpu_facts.h"
#include "apps/terminal/command.h"
#include "core/backend/backend.h"
#include "core/io/json.h"
#include "core/nvidia/cuda_library.h"

#include <algorithm>
#include <iterator>
#include <memory>

namespace whisker {
namespace {

std::string_view architecture() {
#if defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unknown architecture";
#endif
}

std::string compiler() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

/// A fact of the CPU: its name in text and in JSON.
struct Shown {
  std::string_view property, heading, key;
};
constexpr Shown shown[] = {{"computes with", "cpu", "computes_with"},
                           {"processor", "processor", "processor"},
                           {"instructions", "with", "instructions"}};

template <class Write>
void each_fact(Write write) {
  for (const BackendProperty& fact : backend_of(cpu_device).properties()) {
    const auto found = std::ranges::find(shown, fact.name, &Shown::property);
    if (found != std::end(shown)) write(*found, fact.value);
  }
}

std::string version_text() {
  std::string text = fmt::format("whisker {}\n", version);
  text += fmt::format("built for  {} by {}\n", architecture(), compiler());
  each_fact([&](const Shown& fact, const std::string& value) {
    text += fmt::format("{:<9}  {}\n", fact.heading, value);
  });
  return text + fmt::format("cuda       {}\n", describe_gpus(find_gpus(), why_no_cuda()));
}

std::string version_json() {
  JsonWriter json;
  json.begin_object().field("schema_version", 1).field("version", version);
  json.field("architecture", architecture()).field("compiler", compiler());
  each_fact([&](const Shown& fact, const std::string& value) { json.field(fact.key, value); });
  write(json, find_gpus(), why_no_cuda());
  return json.end_object().str() + "\n";
}

}  // namespace

void add_version_command(CLI::App& app, Invocation& invocation) {
  CLI::App* command =
      app.add_subcommand("version", "Version, and what it was built with and found");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "One JSON object");
  set_action(command, invocation, [json] {
    print_result(*json ? version_json() : version_text());
    return 0;
  });
}

}  // namespace whisker
