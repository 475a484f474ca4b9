// whisker version: the program's version, and what it was built with.
#include "train/version.h"

#include "apps/command.h"
#include "apps/gpu_facts.h"
#include "core/backend.h"
#include "core/cuda_library.h"

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

std::string version_text() {
  std::string text = fmt::format("whisker {}\n", version);
  text += fmt::format("built for  {} by {}\n", architecture(), compiler());
  for (const BackendProperty& fact : backend_of(cpu_device).properties()) {
    if (fact.name == "computes with") text += fmt::format("cpu        {}\n", fact.value);
    if (fact.name == "processor") text += fmt::format("processor  {}\n", fact.value);
    if (fact.name == "instructions") text += fmt::format("with       {}\n", fact.value);
  }
  return text + fmt::format("cuda       {}\n", describe_gpus(find_gpus(), why_no_cuda()));
}

}  // namespace

void add_version_command(CLI::App& app, Invocation& invocation) {
  CLI::App* command =
      app.add_subcommand("version", "Version, and what it was built with and found");
  command->callback([&invocation] {
    invocation.run = [] {
      print_result(version_text());
      return 0;
    };
  });
}

}  // namespace whisker
