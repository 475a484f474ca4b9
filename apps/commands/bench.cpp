// whisker bench CONFIG: time, throughput, memory and fraction of the machine's ceilings, for
// training steps or inference, for one or several batch sizes.
#include "apps/commands/preset_config.h"
#include "apps/terminal/command.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/io/text_table.h"
#include "train/experiment.h"
#include "train/planning/benchmark.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace whisker {
namespace {

struct BenchArguments {
  std::string file;
  std::vector<std::string> overrides;
  std::vector<std::string> batches;  // numbers with commas between
  bool inference = false, json = false;
  int64_t steps = 50;
};

std::string as_json(const BenchmarkResult& result, const Ceilings& ceilings) {
  JsonWriter json;
  json.begin_object().field("schema_version", 1);
  json.field("mode", result.inference ? "inference" : "training").field("device", result.device);
  json.field("precision", result.precision).field("batch", result.batch);
  json.field("steps", result.steps).field("captured", result.captured);
  json.field("steps_per_s", 1e3 / result.quantile(0.5));
  json.field("images_per_s", result.examples_per_s()).key("ms").begin_object();
  json.field("median", result.quantile(0.5)).field("min", result.milliseconds.front());
  json.field("max", result.milliseconds.back()).field("p50", result.quantile(0.5));
  json.field("p95", result.quantile(0.95)).field("p99", result.quantile(0.99)).end_object();
  json.field("peak_bytes", result.peak_bytes).field("reserved_bytes", result.reserved_bytes);
  json.field("tflops", result.tflops()).field("ceiling_tflops", ceilings.tflops);
  json.field("gb_per_s", result.gb_per_s()).field("ceiling_gb_per_s", ceilings.gb_per_s);
  const double floor = result.work.floor_ms(ceilings);
  json.field("floor_ms", floor).field("over_floor", result.quantile(0.5) / floor);
  json.list("layers", result.layers, [&](const LayerTimes& times) {
    json.begin_object().field("layer", times.layer).field("forward_ms", times.forward_ms);
    json.field("backward_ms", times.backward_ms).end_object();
  });
  return json.end_object().str() + "\n";
}

std::string as_text(const BenchmarkResult& result, const Ceilings& ceilings) {
  const auto share = [](double of, double all) { return 100 * of / all; };
  std::string text = fmt::format(
      "{} on {} in {}, batches of {}{}\n"
      "  time     {:.3f} ms (median of {}; {:.3f} to {:.3f}{})\n"
      "  speed    {:.1f} steps/s, {:.0f} examples/s\n"
      "  memory   {} at most in tensors and scratch, {} taken from the {}\n"
      "  reached  {:.3f} of {:.3f} TFLOP/s ({:.0f} %), at least {:.1f} of {:.1f} GB/s ({:.0f} %)\n"
      "  floor    {:.3f} ms, pass by pass at these rates: {:.2f} times that\n",
      result.inference ? "inference" : "training", result.device, result.precision, result.batch,
      result.captured ? ", captured" : "", result.quantile(0.5), result.steps,
      result.milliseconds.front(), result.milliseconds.back(),
      result.inference
          ? fmt::format("; p95 {:.3f}, p99 {:.3f}", result.quantile(0.95), result.quantile(0.99))
          : std::string(),
      1e3 / result.quantile(0.5), result.examples_per_s(),
      human_bytes(static_cast<uint64_t>(result.peak_bytes)),
      human_bytes(static_cast<uint64_t>(result.reserved_bytes)),
      result.device.starts_with("cuda") ? "driver" : "system", result.tflops(), ceilings.tflops,
      share(result.tflops(), ceilings.tflops), result.gb_per_s(), ceilings.gb_per_s,
      share(result.gb_per_s(), ceilings.gb_per_s), result.work.floor_ms(ceilings),
      result.quantile(0.5) / result.work.floor_ms(ceilings));
  if (result.layers.empty()) return text;
  TextTable table({"layer, step by step", ">forward ms", ">backward ms"});
  for (const LayerTimes& times : result.layers) {
    table.add({times.layer, fmt::format("{:.3f}", times.forward_ms),
               fmt::format("{:.3f}", times.backward_ms)});
  }
  return text + table.str("  ");
}

std::vector<int64_t> batch_sizes(const std::vector<std::string>& lists) {
  constexpr int64_t most = 65536;
  std::vector<int64_t> sizes;
  for (const std::string& list : lists) {
    for (size_t first = 0; first <= list.size();) {
      const size_t end = std::min(list.find(',', first), list.size());
      int64_t size = 0;
      const auto [stop, error] = std::from_chars(list.data() + first, list.data() + end, size);
      if (error != std::errc() || stop != list.data() + end || size < 1 || size > most) {
        fail(ErrorKind::usage,
             "bench --batch: expected numbers from 1 to {} with commas between, got '{}'.", most,
             list);
      }
      sizes.push_back(size);
      first = end + 1;
    }
  }
  return sizes;
}

int run_bench(const BenchArguments& arguments, const Invocation& invocation) {
  ShownConfig shown = read_shown_config(arguments.file, arguments.overrides,
                                        {.options = "data.train=DIR"}, invocation);
  Config& config = shown.config;
  config.device = chosen_device(config.device, invocation).str();
  std::vector<int64_t> batches = batch_sizes(arguments.batches);
  if (batches.empty()) batches = {config.train.batch_size};
  std::optional<RandomImages> images;
  if (shown.classes > 0) {
    if (config.data.kind != DataKind::images) {
      fail(
          ErrorKind::usage,
          "bench: {} is a network for sequences, whose data decide its size. Give data.train=FILE, "
          "or a configuration.",
          arguments.file);
    }
    images.emplace(*std::ranges::max_element(batches), shown.classes, config.data.image_size);
    images->become_data_of(config);
  }
  const Ceilings ceilings = measure_ceilings(config);
  for (const int64_t batch : batches) {
    Config one = config;
    one.train.batch_size = batch;
    const BenchmarkResult result =
        run_benchmark(std::move(one), {.inference = arguments.inference, .steps = arguments.steps});
    print_result(arguments.json ? as_json(result, ceilings) : as_text(result, ceilings));
  }
  return 0;
}

}  // namespace

void add_bench_command(CLI::App& app, Invocation& invocation) {
  CLI::App* bench = app.add_subcommand(
      "bench", "How fast a configuration computes here, and the most memory that its steps hold");
  auto arguments = std::make_shared<BenchArguments>();
  bench->add_option("CONFIG", arguments->file, "YAML file, or a preset's name")->required();
  bench->add_option("OVERRIDES", arguments->overrides, "section.key=value");
  bench
      ->add_option("--batch-size,--batch", arguments->batches,
                   "Batch sizes instead of the file's: 1,2,4")
      ->allow_extra_args(false);
  bench->add_flag("--inference", arguments->inference, "Classify instead of training");
  bench->add_option("--steps", arguments->steps, "Steps to measure")
      ->check(CLI::Range(1, 1'000'000));
  bench->add_flag("--json", arguments->json, "One JSON object per line and batch size");
  set_action(bench, invocation,
             [&invocation, arguments] { return run_bench(*arguments, invocation); });
}

}  // namespace whisker
