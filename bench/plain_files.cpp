#include "bench/plain_files.h"

#include "core/error.h"
#include "core/io/file.h"
#include "data/codec/decode.h"
#include "data/codec/plain_jpeg.h"
#include "data/parallel.h"

#include <atomic>
#include <chrono>
#include <span>

namespace whisker {
namespace {

using Clock = std::chrono::steady_clock;

std::span<const uint8_t> span_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

PlainFiles::PlainFiles(const ImageFolder& folder, JpegDecoder& decoder) : decoder_(decoder) {
  for (int64_t i = 0; i < folder.size(); ++i) {
    const std::string file = read_file(folder.file(i), size_t{1} << 30, ErrorKind::data);
    if (auto plain = plain_jpeg(span_of(file))) files_.push_back(std::move(*plain));
  }
}

PlainFiles::Checked PlainFiles::check(int workers) const {
  constexpr int64_t rounds = 20;
  const auto count = std::ssize(files_);
  std::atomic<int64_t> accepted = 0;
  const auto begin = Clock::now();
  parallel_for(rounds * count, workers, [&](int64_t i) {
    const auto checked = plain_jpeg(span_of(files_[static_cast<size_t>(i % count)]));
    accepted += checked && decoder_.accepts(span_of(*checked));
  });
  const auto all = static_cast<double>(rounds * count);
  return {.files_per_s = all / seconds_since(begin),
          .accepted = static_cast<double>(accepted) / all};
}

PlainFiles::Decoded PlainFiles::decode(int64_t count, int at_a_time) const {
  std::vector<JpegImage> images;
  int64_t bytes = 0;
  for (int64_t i = 0; i < count; ++i) {
    const std::string& file = files_[static_cast<size_t>(i) % files_.size()];
    const ImageHeader header = read_header(span_of(file));
    if (!decoder_.accepts(span_of(file))) continue;
    images.push_back(
        {.bytes = span_of(file), .height = header.height, .width = header.width, .at = bytes});
    bytes += (int64_t{3} * header.height * header.width + 255) / 256 * 256;
  }
  std::atomic<int64_t> refused = 0;
  const auto decode = [&](int64_t) {
    try {
      decoder_.decode(images, bytes);
    } catch (const Error&) {
      ++refused;
    }
  };
  for (int64_t i = 0; i < 4; ++i) decode(i);  // warms up
  constexpr int64_t rounds = 60;
  const auto begin = Clock::now();
  parallel_for(rounds, at_a_time, decode);
  return {.files_per_s = static_cast<double>(rounds * std::ssize(images)) / seconds_since(begin),
          .files_per_batch = std::ssize(images),
          .refused_batches = refused};
}

}  // namespace whisker
