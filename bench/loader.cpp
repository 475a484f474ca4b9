// How many images per second become training batches from files: random resized crops of 224 with
// flips, normalised; f32 on the host, bf16 on a GPU. One JSON line per number of workers; nothing
// else uses the batches, so this is the ceiling.
// usage: bench_loader FOLDER-OF-CLASS-FOLDERS [--seconds S] [--workers N,N,...] [--batch N]
//                     [--cache none|memory|device] [--device cpu|cuda]
#include "core/backend/backend.h"
#include "core/error.h"
#include "data/images/image_dataset.h"
#include "data/loader/device_loader.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace whisker;

struct Arguments {
  std::string folder;
  double seconds = 5;
  std::vector<int> workers = {1, 2};
  CacheKind cache = CacheKind::none;
  int64_t batch = 32;
  Device device = cpu_device;
};

const char* name_of(CacheKind cache) {
  return cache == CacheKind::none ? "files" : cache == CacheKind::memory ? "cached" : "resident";
}

std::vector<int> numbers(std::string_view text) {
  std::vector<int> values;
  while (!text.empty()) {
    const size_t length = std::min(text.find(','), text.size());
    int value = 0;
    std::from_chars(text.data(), text.data() + length, value);
    values.push_back(value);
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return values;
}

// Whole epochs until `seconds` are over, at least two after a warm-up; prints the median epoch.
void measure(const Arguments& arguments, int workers) {
  constexpr int side = 224;
  ImageDatasetOptions options{
      .preprocess = {.size = {side, side}},
      .augment = AugmentConfig{.random_resized_crop = true, .flip_horizontal = 0.5},
      .seed = 1};
  options.cache = {
      .kind = arguments.cache, .max_bytes = uint64_t{8} << 30, .device = arguments.device};
  const auto data =
      std::make_shared<ImageDataset>(open_image_folder(arguments.folder), std::move(options));
  const bool gpu = arguments.device.kind == DeviceKind::cuda;
  const auto loader =
      make_loader(data, shuffle_sampler(data->size(), {.seed = 1}),
                  {.batch_size = arguments.batch, .workers = workers, .drop_last = true},
                  {.device = arguments.device, .dtype = gpu ? DType::bf16 : DType::f32});
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  std::vector<double> rates;
  LoaderStats before;
  const Clock::time_point start = Clock::now();
  for (int64_t epoch = 0; epoch < 3 || seconds_since(start) < arguments.seconds; ++epoch) {
    const Clock::time_point begin = Clock::now();
    int64_t images = 0;
    loader->start_epoch(epoch);
    while (const auto batch = loader->next()) images += batch->size();
    backend_of(arguments.device).synchronize();
    if (epoch == 0) {
      before = loader->stats();
    } else {
      rates.push_back(static_cast<double>(images) / seconds_since(begin));
    }
  }
  std::sort(rates.begin(), rates.end());
  const LoaderStats stats = loader->stats();
  const double work = stats.work_seconds - before.work_seconds;
  const auto images = static_cast<double>(stats.samples - before.samples);
  std::printf(
      "{\"id\": \"loader_rrc224_%s\", \"device\": \"%s\", \"batch\": %lld, \"workers\": %d, "
      "\"images\": %lld, \"n\": %zu, "
      "\"images_per_s\": %.1f, \"images_per_s_min\": %.1f, \"images_per_s_max\": %.1f, "
      "\"work_ms_per_image\": %.3f}\n",
      name_of(arguments.cache), arguments.device.str().c_str(),
      static_cast<long long>(arguments.batch), workers, static_cast<long long>(data->size()),
      rates.size(), rates[rates.size() / 2], rates.front(), rates.back(), 1000 * work / images);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (argc > 1) arguments.folder = argv[1];
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--seconds") arguments.seconds = std::atof(argv[i + 1]);
    if (option == "--workers") arguments.workers = numbers(argv[i + 1]);
    const std::string_view value = argv[i + 1];
    if (option == "--cache" && value == "memory") arguments.cache = CacheKind::memory;
    if (option == "--cache" && value == "device") arguments.cache = CacheKind::device;
    if (option == "--batch") arguments.batch = std::atoll(argv[i + 1]);
    if (option == "--device") arguments.device = Device::parse(value);
  }
  try {
    if (arguments.folder.empty()) fail(ErrorKind::usage, "usage: bench_loader FOLDER [options]");
    for (const int workers : arguments.workers) measure(arguments, workers);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
  return 0;
}
