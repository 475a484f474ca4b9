// whisker devices: what can compute here, with what; --check compares each device with the
// reference and exits 5 when one is wrong.
#include "apps/command.h"
#include "apps/device_check.h"
#include "apps/gpu_facts.h"
#include "core/backend.h"
#include "core/cuda_library.h"
#include "core/io/json.h"
#include "core/io/text_table.h"

#include <algorithm>

namespace whisker {
namespace {

struct DeviceReport {
  Device device;
  std::vector<BackendProperty> properties;
  std::vector<DeviceCheck> checks;
};

std::vector<DeviceReport> look_at_devices(bool check) {
  std::vector<DeviceReport> reports;
  for (const Device device : available_devices()) {
    reports.push_back({device, backend_of(device).properties(), {}});
    if (!check) continue;
    for (const CheckedOperator& op : checked_operators()) {
      reports.back().checks.push_back(check_on(device, op));
    }
  }
  return reports;
}

std::string as_text(const std::vector<DeviceReport>& reports, const GpuFacts& gpus) {
  std::string text;
  for (const DeviceReport& report : reports) {
    text += report.device.str() + "\n";
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
    text += '\n';
  }
  return text + "cuda\n  " + describe_gpus(gpus, why_no_cuda()) + "\n";
}

std::string as_json(const std::vector<DeviceReport>& reports, const GpuFacts& gpus) {
  JsonWriter json(NonFinite::null);
  json.begin_object().key("schema_version").value(int64_t{1}).key("devices").begin_array();
  for (const DeviceReport& report : reports) {
    json.begin_object().key("device").value(report.device.str());
    json.key("properties").begin_object();
    for (const BackendProperty& fact : report.properties) json.key(fact.name).value(fact.value);
    json.end_object();
    if (!report.checks.empty()) {
      json.key("checks").begin_array();
      for (const DeviceCheck& check : report.checks) {
        json.begin_object().key("op").value(check.name).key("error").value(check.error);
        json.key("tolerance").value(check.tolerance);
        json.key("milliseconds").value(check.milliseconds);
        json.key("passed").value(check.passed()).end_object();
      }
      json.end_array();
    }
    json.end_object();
  }
  json.end_array().key("nvidia_driver").value(gpus.driver).key("gpus").begin_array();
  for (const std::string& model : gpus.models) json.value(model);
  return json.end_array().end_object().str() + "\n";
}

}  // namespace

void add_devices_command(CLI::App& app, Invocation& invocation) {
  CLI::App* devices = app.add_subcommand("devices", "What can compute here");
  struct Arguments {
    bool check = false, json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  devices->add_flag(
      "--check", arguments->check,
      "Compute on each device and compare with the reference; exit code 5 when wrong");
  devices->add_flag("--json", arguments->json, "As JSON");
  devices->callback([&invocation, arguments] {
    invocation.run = [arguments] {
      const auto reports = look_at_devices(arguments->check);
      const GpuFacts gpus = find_gpus();
      print_result(arguments->json ? as_json(reports, gpus) : as_text(reports, gpus));
      for (const DeviceReport& report : reports) {
        for (const DeviceCheck& check : report.checks) {
          if (check.passed()) continue;
          fail(ErrorKind::device,
               "devices: {} computes {} wrongly: error {:.1e}, allowed {:.1e}. Compare with "
               "device=reference and report this machine's 'whisker devices --json'.",
               report.device, check.name, check.error, check.tolerance);
        }
      }
      return 0;
    };
  });
}

}  // namespace whisker
