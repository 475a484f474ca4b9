// Numbers that a GPU does not measure are empty cells, null in JSON.
#include "apps/devices/devices_watch.h"

#include "core/io/json.h"
#include "core/io/text.h"

#include <algorithm>
#include <optional>
#include <thread>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace whisker {
namespace {

template <class T>
std::string cell(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : std::string();
}

std::string gibibytes(int64_t bytes) {
  return human_bytes(static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
}

// A field of RFC 4180.
std::string csv_field(const std::string& text) {
  std::string field = "\"";
  for (const char c : text) field += c == '"' ? std::string("\"\"") : std::string(1, c);
  return field + "\"";
}

std::string text_line(const GpuReading& gpu, const std::string& time) {
  const auto unit = [](const std::string& number, const char* of) {
    return number.empty() ? std::string("-") : number + of;
  };
  std::string processes;
  for (const GpuProcess& process : gpu.processes) {
    processes += fmt::format(" {}{}", process.pid,
                             process.bytes ? " (" + gibibytes(*process.bytes) + ")" : "");
  }
  const std::string watts =
      gpu.power_watts ? fmt::format("{:.0f}", *gpu.power_watts) : std::string();
  return fmt::format("{:<24}  {:>3}  {:>10} of {:>10}  {:>6}  {:>5}  {:>5}  {:>5}  {}\n", time,
                     gpu.index, gibibytes(gpu.used_bytes), gibibytes(gpu.total_bytes),
                     unit(watts, " W"), unit(cell(gpu.temperature_celsius), " C"),
                     unit(cell(gpu.gpu_percent), " %"), unit(cell(gpu.memory_percent), " %"),
                     processes.empty() ? "none" : processes.substr(1));
}

std::string csv_line(const GpuReading& gpu, const std::string& time) {
  std::string processes;
  for (const GpuProcess& process : gpu.processes) {
    processes +=
        fmt::format("{}{}:{}", processes.empty() ? "" : " ", process.pid, cell(process.bytes));
  }
  return fmt::format("{},{},{},{},{},{},{},{},{},{}\n", time, gpu.index, csv_field(gpu.name),
                     gpu.used_bytes, gpu.total_bytes, cell(gpu.power_watts),
                     cell(gpu.temperature_celsius), cell(gpu.gpu_percent), cell(gpu.memory_percent),
                     csv_field(processes));
}

std::string json_line(const std::vector<GpuReading>& gpus, const std::string& time) {
  JsonWriter json;
  json.begin_object().field("schema_version", 1).field("time", time);
  json.list("gpus", gpus, [&](const GpuReading& gpu) {
    json.begin_object().field("index", gpu.index).field("name", gpu.name);
    json.field("used_bytes", gpu.used_bytes).field("total_bytes", gpu.total_bytes);
    json.field("power_watts", gpu.power_watts);
    json.field("temperature_celsius", gpu.temperature_celsius);
    json.field("gpu_percent", gpu.gpu_percent).field("memory_percent", gpu.memory_percent);
    json.list("processes", gpu.processes, [&](const GpuProcess& process) {
      json.begin_object().field("pid", process.pid).field("bytes", process.bytes).end_object();
    });
    json.end_object();
  });
  return json.end_object().str() + "\n";
}

}  // namespace

std::string watch_heading(WatchFormat format) {
  switch (format) {
    case WatchFormat::text:
      return fmt::format("{:<24}  {:>3}  {:>24}  {:>6}  {:>5}  {:>5}  {:>5}  {}\n", "time", "gpu",
                         "memory", "power", "temp", "busy", "mem", "processes");
    case WatchFormat::csv:
      return "time,index,name,used_bytes,total_bytes,power_watts,temperature_celsius,gpu_percent,"
             "memory_percent,processes\n";
    case WatchFormat::json:
      break;
  }
  return "";
}

std::string watch_lines(WatchFormat format, const std::vector<GpuReading>& gpus,
                        const std::string& time) {
  if (format == WatchFormat::json) return json_line(gpus, time);
  std::string text;
  for (const GpuReading& gpu : gpus) {
    text += format == WatchFormat::csv ? csv_line(gpu, time) : text_line(gpu, time);
  }
  return text;
}

std::string time_text(std::chrono::system_clock::time_point time) {
  const auto milliseconds =
      std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = milliseconds / 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(seconds), milliseconds % 1000);
}

void watch_devices(const Nvml& nvml, const WatchOptions& options, const std::atomic<int>& stop,
                   const std::function<void(const std::string&)>& print) {
  using Clock = std::chrono::steady_clock;
  print(watch_heading(options.format));
  for (auto due = Clock::now(); stop.load() == 0;) {
    std::vector<GpuReading> gpus;
    for (int i = 0; i < nvml.count(); ++i) gpus.push_back(nvml.read(i));
    print(watch_lines(options.format, gpus, time_text(std::chrono::system_clock::now())));
    due += std::chrono::duration_cast<Clock::duration>(options.interval);
    while (stop.load() == 0 && Clock::now() < due) {  // a signal does not end a sleep
      std::this_thread::sleep_for(
          std::min<Clock::duration>(due - Clock::now(), std::chrono::milliseconds(50)));
    }
  }
}

}  // namespace whisker
