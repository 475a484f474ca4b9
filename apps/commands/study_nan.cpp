// whisker study nan: runs the step again at which a run diverged, and says where it began.
#include "apps/commands/study_target.h"
#include "apps/study/nan_report.h"
#include "apps/terminal/terminal.h"
#include "core/io/file_ending.h"
#include "core/io/text.h"
#include "core/ops/checks.h"
#include "train/experiment.h"

#include <filesystem>
#include <memory>
#include <utility>

namespace whisker {
namespace {

struct NanArguments {
  std::string run;
  std::vector<std::string> overrides;
  StudyView view;
};

std::filesystem::path kept_step_of(const std::string& run) {
  std::error_code none;
  const std::filesystem::path folder = run;
  if (std::filesystem::is_regular_file(folder, none)) {
    if (file_ending(run) == ".safetensors") return folder;
    fail(ErrorKind::usage,
         "study nan: expected the folder of a run, or the file non_finite.safetensors in it, got "
         "{}.",
         excerpt(run));
  }
  refuse_no_run("study nan", run);
  const std::filesystem::path file = folder / "non_finite.safetensors";
  if (std::filesystem::exists(file, none)) return file;
  fail(ErrorKind::usage,
       "study nan: {} has no non_finite.safetensors: this run met no NaN or Inf, or was trained "
       "before Whisker kept them.",
       excerpt(run));
}

int run_nan(const NanArguments& arguments, const Invocation& invocation) {
  const std::filesystem::path file = kept_step_of(arguments.run);
  const KeptStep kept(file);
  Config config = kept.config();
  bool given = false;
  for (const std::string& one : arguments.overrides) {
    const bool device = one.starts_with("device="), precision = one.starts_with("precision=");
    if (!device && !precision) {
      fail(ErrorKind::usage,
           "study nan: {}: the step is run as it was kept; device and precision may differ.",
           excerpt(one));
    }
    given = given || precision;
  }
  config = read_config_text(print_config(config), "study nan", arguments.overrides);
  const Device device = chosen_device(config.device, invocation);
  DType dtype = kept.step().precision;
  if (given) dtype = compute_dtype(config.precision, device);
  if (!computes_in(device.kind, dtype)) {
    if (invocation.verbosity >= 0) {
      tell(fmt::format(
          "study nan: the step was computed in {} on {}; {} does not compute in {}, "
          "and runs it in f32, which overflows later; device={} decides otherwise\n",
          dtype, printable(kept.step().device), device, dtype, printable(kept.step().device)));
    }
    dtype = DType::f32;
  }
  configure_backend(config, device);
  const NanReport report = NanReport::of(kept, file.string(), device, dtype);
  print_result(arguments.view.json ? report.json() + "\n" : report.text(arguments.view.width()));
  return 0;
}

}  // namespace

void add_nan_command(CLI::App& study, Invocation& invocation) {
  const auto arguments = std::make_shared<NanArguments>();
  CLI::App* nan = study.add_subcommand(
      "nan", "Run the step again at which a run diverged: the first NaN or Inf, and its cause");
  nan->add_option("RUN", arguments->run, "The folder of the run")->required();
  nan->add_option("OVERRIDES", arguments->overrides, "device=DEVICE, precision=PRECISION");
  add_view_options(nan, arguments->view);
  set_action(nan, invocation, [&invocation, arguments] { return run_nan(*arguments, invocation); });
}

}  // namespace whisker
