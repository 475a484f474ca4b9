#include "train/inference/class_activation.h"

#include "core/autograd/autograd.h"
#include "core/error.h"
#include "core/ops/ops.h"
#include "data/transforms/transform_image.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

namespace whisker {
namespace {

bool has_weight(const Module& layer) {
  return std::ranges::any_of(layer.parameters(), [](const auto& parameter) {
    return parameter->role() == ParameterRole::weight ||
           parameter->role() == ParameterRole::conv_weight;
  });
}

// Number of layers in front of the values that the maps are made of; nothing without such values.
std::optional<size_t> activation_layer(const Network& network, Shape x) {
  const Sequential& net = *network.model().net;
  std::optional<size_t> images, tokens, last_tokens;
  for (size_t i = 0; i < net.size(); ++i) {
    if (x.rank() == 3 && has_weight(*net.layer(i))) tokens = i;
    x = net.layer(i)->output_shape(x);
    const bool spatial = x.rank() == 4 && x[1] * x[2] > 1;
    if (spatial) images = i + 1;
    if (x.rank() == 3 && tokens) last_tokens = tokens;
  }
  return last_tokens ? last_tokens : images;
}

// Rows and columns of what is (N, H, W, C), or (N, T, C) with or without a class token in front.
struct Grid {
  int height = 0;
  int width = 0;
  int64_t skip = 0;
};

Grid grid_of(const Shape& shape) {
  if (shape.rank() == 4) return {static_cast<int>(shape[1]), static_cast<int>(shape[2]), 0};
  const auto side = static_cast<int>(std::sqrt(static_cast<double>(shape[1])));
  return {side, side, shape[1] - int64_t{side} * side};
}

ActivationMap map_of(std::span<const float> values, std::span<const float> gradient,
                     int64_t channels, const Grid& grid) {
  std::vector<double> weight(static_cast<size_t>(channels));
  for (size_t i = 0; i < gradient.size(); ++i) {
    weight[i % static_cast<size_t>(channels)] += static_cast<double>(gradient[i]);
  }
  ActivationMap map{.height = grid.height, .width = grid.width, .values = {}};
  const auto width = static_cast<size_t>(channels);
  double most = 0;
  std::vector<double> sums;
  for (size_t at = static_cast<size_t>(grid.skip) * width; at < values.size(); at += width) {
    double sum = 0;
    for (size_t c = 0; c < width; ++c) sum += weight[c] * static_cast<double>(values[at + c]);
    sums.push_back(std::max(sum, 0.0));
    most = std::max(most, sum);
  }
  for (const double sum : sums) map.values.push_back(most > 0 ? static_cast<float>(sum / most) : 0);
  return map;
}

// Black, purple, orange, yellow: bright where strong, also for who sees no colors.
std::array<float, 3> heat_color(float value) {
  constexpr std::array<std::array<float, 3>, 4> colors = {
      {{0, 0, 4}, {120, 28, 109}, {237, 105, 37}, {252, 255, 164}}};
  const float at = std::clamp(value, 0.0f, 1.0f) * 3;
  const auto below = std::min<size_t>(static_cast<size_t>(at), 2);
  const float share = at - static_cast<float>(below);
  std::array<float, 3> color{};
  for (size_t c = 0; c < 3; ++c) {
    color[c] = colors[below][c] + share * (colors[below + 1][c] - colors[below][c]);
  }
  return color;
}

// The map at a position in [0, 1], between its points.
float map_at(const ActivationMap& map, double y, double x) {
  const auto axis = [](double at, int extent) {
    const double clamped = std::clamp(at * extent - 0.5, 0.0, extent - 1.0);
    const int before = std::min(static_cast<int>(clamped), std::max(0, extent - 2));
    return std::pair{before, clamped - before};
  };
  const auto [top, down] = axis(y, map.height);
  const auto [left, across] = axis(x, map.width);
  const auto value = [&](int row, int column) {
    row = std::min(row, map.height - 1);
    column = std::min(column, map.width - 1);
    return static_cast<double>(map.values[static_cast<size_t>(row * map.width + column)]);
  };
  const double above = value(top, left) + across * (value(top, left + 1) - value(top, left));
  const double below =
      value(top + 1, left) + across * (value(top + 1, left + 1) - value(top + 1, left));
  return static_cast<float>(above + down * (below - above));
}

// Positions in [0, 1] along an axis; nothing where the network does not see it.
using Positions = std::vector<std::optional<double>>;

Positions centers(int extent) {
  Positions positions;
  for (int i = 0; i < extent; ++i) positions.emplace_back((i + 0.5) / extent);
  return positions;
}

// Where the pixels of an image come to lie in the input, whose extent is `size`.
Positions positions_seen(int extent, const ResizeAxis& axis, int crop, int place, int size) {
  Positions positions(static_cast<size_t>(extent));
  for (int i = 0; i < extent; ++i) {
    const double at = (i + 0.5 - crop - axis.from) / (axis.to - axis.from) * axis.out - axis.first;
    if (at < 0 || at > axis.count) continue;
    positions[static_cast<size_t>(i)] = (place + at) / size;
  }
  return positions;
}

Image with_heat_at(Image image, const ActivationMap& map, const Positions& rows,
                   const Positions& columns) {
  for (int y = 0; y < image.height; ++y) {
    const std::optional<double>& down = rows[static_cast<size_t>(y)];
    for (int x = 0; x < image.width; ++x) {
      const std::optional<double>& across = columns[static_cast<size_t>(x)];
      const float value = down && across ? map_at(map, *down, *across) : 0;
      const float share = down && across ? 0.35f + 0.3f * value : 0.7f;
      const std::array<float, 3> color = heat_color(value);
      uint8_t* const pixel = image.row(y) + ptrdiff_t{3} * x;
      for (size_t c = 0; c < 3; ++c) {
        pixel[c] =
            static_cast<uint8_t>(static_cast<float>(pixel[c]) * (1 - share) + share * color[c]);
      }
    }
  }
  return image;
}

}  // namespace

std::vector<ActivationMap> class_activation_maps(const Network& network, const Tensor& inputs,
                                                 std::span<const int64_t> classes) {
  const std::optional<size_t> layer = activation_layer(network, inputs.shape());
  if (!layer) {
    fail(ErrorKind::usage,
         "class-activation maps: the network keeps no rows and columns of the image.");
  }
  Tensor values;
  {
    const NoGrad no_grad;
    values = network.run_layers({0, *layer}, inputs).to(DType::f32).clone();
  }
  values.set_requires_grad();
  const Tensor logits =
      network.run_layers({*layer, network.model().net->size()}, values).to(DType::f32);
  const int64_t columns = logits.extent(-1);
  std::vector<double> chosen(static_cast<size_t>(logits.count()));
  for (size_t row = 0; row < classes.size(); ++row) {
    if (columns == 1) {
      chosen[row] = classes[row] == 0 ? -1 : 1;  // a sigmoid's
    } else {
      chosen[row * static_cast<size_t>(columns) + static_cast<size_t>(classes[row])] = 1;
    }
  }
  backward(sum(mul(logits, from_vector(chosen, logits.shape(), {.device = logits.device()}))));
  const Tensor host = values.detach().to(cpu_device), slopes = values.grad().to(cpu_device);
  const Grid grid = grid_of(values.shape());
  const size_t width = static_cast<size_t>(values.count()) / classes.size();
  std::vector<ActivationMap> maps;
  for (size_t row = 0; row < classes.size(); ++row) {
    maps.push_back(map_of(host.data<const float>().subspan(row * width, width),
                          slopes.data<const float>().subspan(row * width, width), values.extent(-1),
                          grid));
  }
  return maps;
}

Image seen_image(const Preprocess& preprocess, const Image& image) {
  Preprocess plain = preprocess;
  plain.channels = 3;
  ImageRecord record = preprocess_record(plain, image.height, image.width);
  std::ranges::fill(record.factor, 1.0f);
  std::ranges::fill(record.shift, 0.0f);
  const ImageSize size = plain.output();
  std::vector<float> values(static_cast<size_t>(size.height) * static_cast<size_t>(size.width) * 3);
  TransformScratch scratch;
  transform_image(ImageView(image), record, {.values = values, .size = size}, scratch);
  Image seen;
  seen.reshape(size.height, size.width);
  std::ranges::transform(values, seen.rgb.begin(),
                         [](float value) { return static_cast<uint8_t>(value); });
  return seen;
}

Image seen_image(const Normalisation& normalisation, const Tensor& input) {
  Image seen;
  seen.reshape(static_cast<int>(input.extent(0)), static_cast<int>(input.extent(1)));
  const auto channels = static_cast<size_t>(input.extent(2));
  const auto values = input.data<const float>();
  for (size_t i = 0; i < seen.rgb.size(); ++i) {
    const size_t c = std::min(i % 3, channels - 1);
    const float value =
        (values[i / 3 * channels + c] - normalisation.offset(c)) / normalisation.factor(c);
    seen.rgb[i] = static_cast<uint8_t>(std::clamp(std::nearbyint(value), 0.0F, 255.0F));
  }
  return seen;
}

Image with_heat(Image seen, const ActivationMap& map) {
  const Positions rows = centers(seen.height), columns = centers(seen.width);
  return with_heat_at(std::move(seen), map, rows, columns);
}

Image with_heat(Image image, const ActivationMap& map, const Preprocess& preprocess) {
  const ImageRecord record = preprocess_record(preprocess, image.height, image.width);
  const ImageSize size = preprocess.output();
  const Positions rows =
      positions_seen(image.height, record.rows, record.crop.top, record.place.top, size.height);
  const Positions columns =
      positions_seen(image.width, record.columns, record.crop.left, record.place.left, size.width);
  return with_heat_at(std::move(image), map, rows, columns);
}

size_t embedding_layer(const Network& network) {
  const Model& model = network.model();
  for (size_t i = 0; i < model.net->size(); ++i) {
    for (const auto& parameter : model.net->layer(i)->parameters()) {
      if (!model.head.empty() && selects(model.head.front(), parameter->name())) return i;
    }
  }
  return model.net->size();
}

Tensor pooled(const Tensor& values) {
  const Shape& shape = values.shape();
  if (shape.rank() == 2) return values.to(DType::f32);
  const Tensor rows = values.to(DType::f32).reshape({shape[0], -1, shape[-1]});
  return mean(rows, {1});
}

}  // namespace whisker
