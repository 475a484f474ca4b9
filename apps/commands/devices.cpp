// whisker devices: lists devices, library versions and memory, or why a device cannot be used;
// --check compares each device with the reference, exits 5 when one is wrong, and times them;
// --watch samples the GPUs.
#include "apps/devices/device_check.h"
#include "apps/devices/device_timing.h"
#include "apps/devices/devices_watch.h"
#include "apps/devices/gpu_facts.h"
#include "apps/devices/rank_check.h"
#include "apps/ranks/launcher.h"
#include "apps/ranks/run_ranks.h"
#include "apps/ranks/same_inputs.h"
#include "apps/terminal/command.h"
#include "apps/terminal/signals.h"
#include "core/backend/backend.h"
#include "core/backend/memory_summary.h"
#include "core/io/json.h"
#include "core/io/text_table.h"
#include "core/nvidia/cuda_library.h"
#include "core/nvidia/cuda_usable.h"
#include "train/device/device_choice.h"

#include <algorithm>
#include <optional>

namespace whisker {
namespace {

struct DeviceReport {
  Device device;
  std::string error = {};  // why it cannot be used, or what broke off the rest
  std::vector<BackendProperty> properties = {};
  std::vector<DeviceCheck> checks = {};
  std::vector<double> milliseconds = {};  // of timed_operators(); empty without --check
  std::optional<MemorySummary> memory = {};
};

// The reference is for comparison; its speed does not matter.
bool computes_fast(Device device) {
  return device.kind != DeviceKind::reference;
}

// What fails keeps nothing back that is known of the device.
void look_at(DeviceReport& report, bool check) {
  report.properties = backend_of(report.device).properties();
  if (check) {
    for (const CheckedOperator& op : checked_operators()) {
      report.checks.push_back(check_on(report.device, op));
    }
  }
  if (!computes_fast(report.device)) return;
  if (check) {
    std::vector<double> milliseconds;
    for (const TimedOperator& op : timed_operators()) {
      milliseconds.push_back(time_on(report.device, op));
    }
    report.milliseconds = std::move(milliseconds);
  }
  report.memory = memory_summary(report.device);
}

// A broken GPU does not affect the other devices.
std::vector<DeviceReport> look_at_devices(bool check) {
  std::vector<DeviceReport> reports;
  for (const Device device : available_devices()) {
    DeviceReport& report = reports.emplace_back(DeviceReport{.device = device});
    if (device.kind == DeviceKind::cuda) report.error = why_no_cuda(device);
    if (!report.error.empty()) {
      report.properties = cuda_libraries();
      continue;
    }
    try {
      look_at(report, check);
    } catch (const Error& error) {
      report.error = error.what();
    }
  }
  return reports;
}

// Why the GPU that `auto` would select cannot be used.
std::string why_no_gpu() {
  return why_no_cuda(Device{DeviceKind::cuda, 0});
}

// A row for each operator, a column for each device; of several, how often the first one's time the
// others take.
std::string timing_table(const std::vector<DeviceReport>& reports) {
  std::vector<std::string> headings = {"time, ms"};
  for (const DeviceReport& report : reports) {
    if (!report.milliseconds.empty()) headings.push_back(">" + report.device.str());
  }
  if (headings.size() == 1) return "";
  if (headings.size() > 2) headings.emplace_back(">cpu / fastest");
  TextTable table(headings);
  for (size_t i = 0; i < timed_operators().size(); ++i) {
    std::vector<std::string> cells = {timed_operators()[i].name};
    std::vector<double> times;
    for (const DeviceReport& report : reports) {
      if (report.milliseconds.empty()) continue;
      times.push_back(report.milliseconds[i]);
      cells.push_back(fmt::format("{:.3f}", times.back()));
    }
    if (times.size() > 1) {
      cells.push_back(fmt::format("{:.1f}", times.front() / *std::ranges::min_element(times)));
    }
    table.add(cells);
  }
  return "timing\n" + table.str("  ") + "\n";
}

std::string as_text(const std::vector<DeviceReport>& reports, const GpuFacts& gpus) {
  std::string text;
  for (const DeviceReport& report : reports) {
    text += report.device.str();
    text += report.error.empty() ? "\n" : fmt::format(": {}\n", report.error);
    size_t width = 0;
    for (const BackendProperty& fact : report.properties) width = std::max(width, fact.name.size());
    for (const BackendProperty& fact : report.properties) {
      text += fmt::format("  {:<{}}  {}\n", fact.name, width, fact.value);
    }
    if (!report.checks.empty()) {
      TextTable table({"check", ">largest error", ">allowed", ">ms", "verdict"});
      for (const DeviceCheck& check : report.checks) {
        table.add({check.name, fmt::format("{:.1e}", check.error),
                   fmt::format("{:.1e}", check.tolerance),
                   fmt::format("{:.2f}", check.milliseconds), check.passed() ? "ok" : "WRONG"});
      }
      text += table.str("  ");
    }
    if (report.memory) text += to_text(*report.memory, report.device);
    text += '\n';
  }
  const std::string timing = timing_table(reports);
  const std::string why = why_no_gpu();
  const bool said = !why.empty() && cuda_device_count() > 0;  // beside cuda:0
  text += timing + "cuda\n  " +
          describe_gpus(gpus, said ? "cuda:0 cannot be used: see above" : why) + "\n";
  return timing.empty() ? text : text + "  " + gpu_verdict(why, cuda_device_count()) + "\n";
}

void write(JsonWriter& json, const MemorySummary& memory) {
  json.begin_object().field("used_bytes", memory.used()).field("total_bytes", memory.total);
  json.field("tensors_bytes", memory.stats.allocated).field("cache_bytes", memory.cache());
  json.field("graph_pool_bytes", memory.graph_pool).field("context_bytes", memory.context);
  json.field("others_bytes", memory.others).field("free_bytes", memory.free).end_object();
}

std::string as_json(const std::vector<DeviceReport>& reports, const GpuFacts& gpus) {
  JsonWriter json(NonFinite::null);
  json.begin_object().field("schema_version", 1).key("devices").begin_array();
  for (const DeviceReport& report : reports) {
    json.begin_object().field("device", report.device.str());
    if (!report.error.empty()) json.field("error", report.error);
    json.key("properties").begin_object();
    for (const BackendProperty& fact : report.properties) json.field(fact.name, fact.value);
    json.end_object();
    if (!report.checks.empty()) {
      json.list("checks", report.checks, [&](const DeviceCheck& check) {
        json.begin_object().field("op", check.name).field("error", check.error);
        json.field("tolerance", check.tolerance).field("milliseconds", check.milliseconds);
        json.field("passed", check.passed()).end_object();
      });
    }
    if (!report.milliseconds.empty()) {
      json.key("timings").begin_array();
      for (size_t i = 0; i < report.milliseconds.size(); ++i) {
        json.begin_object().field("op", timed_operators()[i].name);
        json.field("milliseconds", report.milliseconds[i]).end_object();
      }
      json.end_array();
    }
    if (report.memory) write(json.key("memory"), *report.memory);
    json.end_object();
  }
  write(json.end_array(), gpus, why_no_gpu());
  return json.end_object().str() + "\n";
}

void fail_unless_right(const std::vector<DeviceReport>& reports) {
  for (const DeviceReport& report : reports) {
    for (const DeviceCheck& check : report.checks) {
      if (check.passed()) continue;
      fail(ErrorKind::device,
           "devices: {} computes {} wrongly: error {:.1e}, allowed {:.1e}. Compare with "
           "device=reference and report this machine's 'whisker devices --json'.",
           report.device, check.name, check.error, check.tolerance);
    }
    if (!report.error.empty()) {
      fail(ErrorKind::device, "devices: {}: {}", report.device, report.error);
    }
  }
}

// Checks as one rank of several.
int check_as_rank(const std::string& gpus, bool json, const CLI::App& command) {
  RunRanks run;
  return run.run([&] {
    require_same_command(*run.group(), command);
    const bool on_cpus = gpus.empty() && rank_environment().launcher == Launcher::mpirun;
    const Device device = Device::parse(device_of_rank(on_cpus ? "cpu" : "cuda", *run.group()));
    const auto ranks = make_communicator(run.group(), device);
    const RankCheck check = check_ranks(*ranks, device);
    if (run.group()->leads()) {
      JsonWriter object(NonFinite::null);
      write(object.begin_object().field("schema_version", 1), check);
      print_result(json ? object.end_object().str() + "\n" : to_text(check));
    }
    fail_unless_right(check);
    return 0;
  });
}

}  // namespace

void add_devices_command(CLI::App& app, Invocation& invocation) {
  CLI::App* devices =
      app.add_subcommand("devices", "List the devices and whether they can be used");
  struct Arguments {
    bool check = false, json = false, csv = false;
    std::string gpus;
    double interval = 1;
  };
  const auto arguments = std::make_shared<Arguments>();
  devices->add_flag(
      "--check", arguments->check,
      "Compute on each device and compare with the reference; exit code 5 when one is wrong or "
      "cannot be used");
  devices
      ->add_option(
          "--gpus", arguments->gpus,
          "With --check: how N GPUs of this machine, or all, are linked, how fast NCCL adds "
          "up over them, and whether each gets the same sums")
      ->needs(devices->get_option("--check"));
  CLI::Option* const watch = devices
                                 ->add_option("--watch", arguments->interval,
                                              "Print the GPUs' memory, power, temperature, use and "
                                              "processes every SECONDS (1) until Ctrl-C")
                                 ->expected(0, 1)
                                 ->check(number_range(0.02, 86400.0));
  devices->add_flag("--json", arguments->json, "As JSON; with --watch one object per line");
  devices->add_flag("--csv", arguments->csv, "With --watch: as CSV")->needs(watch);
  watch->excludes(devices->get_option("--check"));
  devices->get_option("--csv")->excludes(devices->get_option("--json"));
  set_action(devices, invocation, [arguments, watch, devices] {
    if (watch->count() > 0) {
      const Nvml nvml;
      watch_devices(nvml,
                    {.interval = std::chrono::duration<double>(arguments->interval),
                     .format = arguments->csv    ? WatchFormat::csv
                               : arguments->json ? WatchFormat::json
                                                 : WatchFormat::text},
                    catch_stop_signals(), print_result);
      return 0;
    }
    if (arguments->check) {
      if (rank_environment().world > 1) {
        return check_as_rank(arguments->gpus, arguments->json, *devices);
      }
      const int count = arguments->gpus.empty() ? 0 : ranks_to_start(arguments->gpus, "cuda");
      if (count > 0) return start_ranks(count);
    }
    const auto reports = look_at_devices(arguments->check);
    const GpuFacts gpus = find_gpus();
    print_result(arguments->json ? as_json(reports, gpus) : as_text(reports, gpus));
    if (arguments->check) fail_unless_right(reports);
    return 0;
  });
}

}  // namespace whisker
