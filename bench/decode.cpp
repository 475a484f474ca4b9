// How many JPEG files a core turns into pixels: whole, the middle 224 of 256, and random resized
// crops of 224.
// usage: bench_decode FOLDER [--seconds S] [--threads N] [--only ID]
// One JSON line per row; files are read into memory first; crops change with every pass.
#include "data/codec/decode.h"

#include "data/staging/image_staging.h"
#include "data/transforms/augment_sampler.h"
#include "data/transforms/transform_image.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace {

using whisker::AugmentConfig;
using whisker::Decoded;
using whisker::ImageRecord;
using whisker::Preprocess;

constexpr int target = 224;

struct Workspace {
  Decoded decoded;
  whisker::Image resized;
  whisker::TransformScratch scratch;
  std::vector<float> out = std::vector<float>(size_t{target} * target * 3);
};

using File = std::vector<uint8_t>;
using Task = std::function<void(const File&, uint64_t index, uint64_t pass, Workspace&)>;

std::vector<File> read_folder(const char* folder) {
  std::vector<File> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".jpg") continue;
    std::ifstream stream(entry.path(), std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return files;
}

ImageRecord crop_for(const File& file, uint64_t index, uint64_t pass) {
  static const AugmentConfig config{.random_resized_crop = true, .flip_horizontal = 0.5};
  static const Preprocess preprocess{.size = {target, target}};
  const auto header = whisker::read_header(file);
  return whisker::sample_augmentation(
      config, preprocess, {.seed = 1, .epoch = pass, .index = index}, header.height, header.width);
}

void decode_full(const File& file, uint64_t, uint64_t, Workspace& work) {
  whisker::decode(file, {}, work.decoded);
}

// What classify, evaluate and validation decode.
void decode_middle(const File& file, uint64_t, uint64_t, Workspace& work) {
  static const Preprocess preprocess{.resize_short = 256, .crop = {target, target}};
  const auto header = whisker::read_header(file);
  const ImageRecord record = whisker::preprocess_record(preprocess, header.height, header.width);
  whisker::decode(file, {.part = whisker::part_read(record)}, work.decoded);
}

// To 8-bit pixels, as the peers do.
void decode_crop(const File& file, uint64_t index, uint64_t pass, bool fast, Workspace& work) {
  ImageRecord record = crop_for(file, index, pass);
  whisker::DecodeOptions options;
  if (fast) {
    options.fast = whisker::CropRequest{record.crop, target, target};
  } else {
    options.part = whisker::part_read(record);
  }
  whisker::decode(file, options, work.decoded);
  const whisker::ImageView view = whisker::crop_source(work.decoded, record);
  whisker::resize(view, record, work.resized, work.scratch.resize);
}

// To the normalised f32 input of a network.
void decode_augment(const File& file, uint64_t index, uint64_t pass, Workspace& work) {
  ImageRecord record = crop_for(file, index, pass);
  whisker::decode(file, {.fast = whisker::CropRequest{record.crop, target, target}}, work.decoded);
  const whisker::ImageView view = whisker::crop_source(work.decoded, record);
  whisker::transform_image(view, record, {.values = work.out, .size = {target, target}},
                           work.scratch);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Passes over all files until `seconds` are over, at least three; prints the median pass.
void measure(const std::string& id, const Task& task, const std::vector<File>& files, int threads,
             double seconds) {
  std::vector<Workspace> workspaces(static_cast<size_t>(threads));
  std::vector<double> rates;
  const double start = now();
  for (uint64_t pass = 0; pass < 4 || now() - start < seconds; ++pass) {
    std::atomic<size_t> next = 0;
    const double pass_start = now();
    const auto run = [&](Workspace& work) {
      for (size_t i = next++; i < files.size(); i = next++) task(files[i], i, pass, work);
    };
    if (threads == 1) {
      run(workspaces[0]);
    } else {
      std::vector<std::jthread> pool;
      for (Workspace& work : workspaces) pool.emplace_back([&] { run(work); });
    }
    const double rate = static_cast<double>(files.size()) / (now() - pass_start);
    if (pass > 0) rates.push_back(rate);  // the first warms up
  }
  std::sort(rates.begin(), rates.end());
  const double median = rates[rates.size() / 2];
  std::printf(
      "{\"id\": \"%s\", \"threads\": %d, \"images\": %zu, \"n\": %zu, \"images_per_s\": %.1f, "
      "\"images_per_s_per_core\": %.1f, \"images_per_s_min\": %.1f, \"images_per_s_max\": %.1f}\n",
      id.c_str(), threads, files.size(), rates.size(), median, median / threads, rates.front(),
      rates.back());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 3;
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  std::string only;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--seconds") seconds = std::atof(argv[i + 1]);
    if (option == "--threads") threads = std::max(1, std::atoi(argv[i + 1]));
    if (option == "--only") only = argv[i + 1];
  }
  const std::vector<File> files = argc > 1 ? read_folder(argv[1]) : std::vector<File>{};
  if (files.empty()) {
    std::fprintf(
        stderr,
        "usage: bench_decode FOLDER-WITH-JPEG-FILES [--seconds S] [--threads N] [--only ID]\n");
    return 2;
  }
  const std::vector<std::pair<std::string, Task>> rows = {
      {"decode_full", decode_full},
      {"decode_middle224", decode_middle},
      {"decode_rrc224_exact", [](auto& file, auto index, auto pass,
                                 auto& work) { decode_crop(file, index, pass, false, work); }},
      {"decode_rrc224_fast", [](auto& file, auto index, auto pass,
                                auto& work) { decode_crop(file, index, pass, true, work); }},
      {"decode_rrc224_fast_f32", decode_augment}};
  for (const auto& [id, task] : rows) {
    if (!only.empty() && only != id) continue;
    measure(id, task, files, 1, seconds);
    if (threads > 1) measure(id, task, files, threads, seconds);
  }
  return 0;
}
