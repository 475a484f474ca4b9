// What a picture record means, in plain loops: the definition that kernels and the loader's own
// vectorised path are compared with.
#include "core/picture_pipeline.h"

#include "core/error.h"
#include "core/picture_pixels.h"

#include <array>
#include <cstring>

namespace whisker {
namespace {

struct Weights {
  int first = 0;
  std::vector<int32_t> values;
};

Weights weights_at(const Resampling& resampling, int i) {
  const Taps taps = taps_of(resampling, i);
  double sum = 0;
  for (int tap = 0; tap < taps.last - taps.first; ++tap) sum += weight_of(resampling, taps, tap);
  Weights weights{.first = taps.first, .values = {}};
  for (int tap = 0; tap < taps.last - taps.first; ++tap) {
    weights.values.push_back(fixed_weight(weight_of(resampling, taps, tap), sum));
  }
  return weights;
}

std::vector<Weights> weights_of(const ResizeAxis& axis, const PictureRecord& record, bool flip) {
  const Resampling resampling = resampling_of(axis, record.interpolation, record.antialias);
  std::vector<Weights> weights;
  for (int i = 0; i < axis.count; ++i) {
    weights.push_back(weights_at(resampling, flip ? axis.count - 1 - i : i));
  }
  return weights;
}

// One sample of each channel: `from` and its neighbours `step` bytes apart.
void weigh(const uint8_t* from, int64_t step, const Weights& weights, uint8_t* out) {
  for (int c = 0; c < 3; ++c) {
    int32_t sum = weight_half;
    const uint8_t* sample = from + c;
    for (const int32_t weight : weights.values) {
      sum += weight * *sample;
      sample += step;
    }
    out[c] = rounded_sample(sum);
  }
}

// Resampled, flipped and placed: (H, W, 3). Columns first, as Pillow does.
std::vector<uint8_t> place(const PictureRecord& record, const uint8_t* source, int height,
                           int width) {
  const auto columns = weights_of(record.columns, record, record.flip_horizontal);
  const auto rows = weights_of(record.rows, record, record.flip_vertical);
  std::vector<uint8_t> placed(static_cast<size_t>(height) * static_cast<size_t>(width) * 3);
  for (int y = 0; y < record.place.height; ++y) {
    const Weights& row = rows[static_cast<size_t>(y)];
    std::vector<uint8_t> line(row.values.size() * 3);
    uint8_t* out = placed.data() + (int64_t{record.place.top + y} * width + record.place.left) * 3;
    for (int x = 0; x < record.place.width; ++x, out += 3) {
      const Weights& column = columns[static_cast<size_t>(x)];
      for (size_t tap = 0; tap < row.values.size(); ++tap) {
        const int64_t source_row = row.first + static_cast<int64_t>(tap);
        weigh(source + source_row * record.stride + int64_t{3} * column.first, 3, column,
              &line[tap * 3]);
      }
      weigh(line.data(), 3, row, out);
    }
  }
  return placed;
}

std::array<double, most_jitter_steps> gray_means(const PictureRecord& record,
                                                 const PlacedPicture& picture) {
  std::array<double, most_jitter_steps> means{};
  for (int step = 0; step < record.jitter_steps; ++step) {
    if (record.jitter[step].kind != JitterKind::contrast) continue;
    double sum = 0;
    for (int y = 0; y < picture.height; ++y) {
      for (int x = 0; x < picture.width; ++x) {
        const Rgb pixel = jittered_pixel(record, picture, means.data(), step, y, x);
        sum += static_cast<double>(jitter_gray(pixel.v));
      }
    }
    means[static_cast<size_t>(step)] = sum / (static_cast<double>(picture.height) * picture.width);
  }
  return means;
}

class HostPicturePipeline final : public PicturePipeline {
 public:
  void run(const PictureBatch& batch, std::shared_ptr<const void>, const Tensor& images) override {
    for (const PictureCopy& copy : batch.copies) {
      std::memcpy(copy.target, at(batch, copy.at), static_cast<size_t>(copy.bytes));
    }
    const auto height = static_cast<int>(images.extent(1));
    const auto width = static_cast<int>(images.extent(2));
    const size_t rows = batch.records.size();
    const size_t count = static_cast<size_t>(height) * static_cast<size_t>(width);
    std::vector<Rgb> finished(rows * count);
    for (size_t i = 0; i < rows; ++i) {
      const PictureRecord& record = batch.records[i];
      const std::vector<uint8_t> placed = place(record, source(batch, record), height, width);
      const PlacedPicture picture{placed.data(), height, width, batch.channels == 1};
      const auto means = gray_means(record, picture);
      for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
          finished[i * count + static_cast<size_t>(y * width + x)] =
              finished_pixel(record, picture, means.data(), y, x);
        }
      }
    }
    visit(images.dtype(), [&]<class T>() {
      if constexpr (is_floating(dtype_of<T>::value)) {
        write(batch, finished, images.data<T>(), height, width);
      } else {
        fail(ErrorKind::internal, "picture pipeline: images of dtype {}", images.dtype());
      }
    });
  }

 private:
  static const uint8_t* at(const PictureBatch& batch, int64_t offset) {
    for (const PicturePiece& piece : batch.pieces) {
      if (offset < piece.at + piece.bytes) return piece.host + (offset - piece.at);
    }
    fail(ErrorKind::internal, "picture pipeline: byte {} is in none of {} pieces", offset,
         batch.pieces.size());
  }

  // A record's offset may lie before its piece: pixel (0, 0) need not be there.
  static const uint8_t* source(const PictureBatch& batch, const PictureRecord& record) {
    if (record.resident) return reinterpret_cast<const uint8_t*>(record.offset);
    const PictureRecord& r = record;
    const int row = taps_of(resampling_of(r.rows, r.interpolation, r.antialias), 0).first;
    const int column = taps_of(resampling_of(r.columns, r.interpolation, r.antialias), 0).first;
    const int64_t first = row * r.stride + int64_t{3} * column;
    return at(batch, r.offset + first) - first;
  }

  template <class T>
  static void write(const PictureBatch& batch, const std::vector<Rgb>& finished, std::span<T> out,
                    int height, int width) {
    const PixelMix mix = pixel_mix(batch.mix);
    const size_t rows = batch.records.size();
    const size_t count = static_cast<size_t>(height) * static_cast<size_t>(width);
    const size_t channels = out.size() / (rows * count);
    for (size_t i = 0; i < rows; ++i) {
      const size_t partner = (i + rows - 1) % rows;
      for (size_t p = 0; p < count; ++p) {
        const auto y = static_cast<int>(p / static_cast<size_t>(width));
        const auto x = static_cast<int>(p % static_cast<size_t>(width));
        const Rgb& own = finished[i * count + p];
        const Rgb& other = finished[partner * count + p];
        const Rgb pixel = mixed_pixel(mix, own, other, y, x);
        for (size_t c = 0; c < channels; ++c) {
          const bool real = c < static_cast<size_t>(batch.channels);
          out[(i * count + p) * channels + c] = static_cast<T>(real ? pixel.v[c] : 0.0f);
        }
      }
    }
  }
};

}  // namespace

std::unique_ptr<PicturePipeline> make_host_picture_pipeline() {
  return std::make_unique<HostPicturePipeline>();
}

}  // namespace whisker
