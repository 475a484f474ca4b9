#include "train/inference/shown_example.h"

#include "core/autograd/autograd.h"
#include "core/io/file.h"
#include "core/io/utf8.h"
#include "core/ops/ops.h"
#include "data/codec/decode.h"
#include "train/inference/class_activation.h"
#include "train/inference/image_input.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace whisker {

ShownImage shown_image(const Network& network, const std::filesystem::path& file,
                       int64_t of_class) {
  const std::string bytes = read_file(file, max_image_bytes, ErrorKind::data, Source::stream);
  Decoded decoded;
  decode(bytes_of(bytes), {.rules = network.preprocess().rules}, decoded);
  ShownImage shown{.seen = seen_image(network.preprocess(), decoded.image), .heat = {}};
  if (of_class < 0) return shown;
  ImageInput input(network);
  ImageInput::Batch batch = input.batch(1);
  input.set(batch, 0, decoded.image);
  const Tensor inputs = input.take(std::move(batch), std::array{int64_t{0}});
  shown.heat =
      with_heat(shown.seen, class_activation_maps(network, inputs, std::array{of_class}).front());
  return shown;
}

std::string shown_text(const SequenceExample& example, const InputDescription& input) {
  if (!example.text.empty()) return without_middle(example.text, 500, 200);
  constexpr size_t first_values = 60, last_values = 20, most_name = 40;
  const std::vector<std::string>& names = std::get<RowsInput>(input).names;
  const size_t count = example.values.size();
  std::string shown;
  for (size_t i = 0; i < count; ++i) {
    if (i == first_values && count > first_values + last_values) {
      i = count - last_values;
      shown += fmt::format(", [… {} values …]", i - first_values);
    }
    if (i > 0) shown += ", ";
    if (i < names.size()) shown += without_middle(names[i], most_name, most_name) + " ";
    shown += fmt::format("{:.6g}", example.values[i]);
  }
  return shown;
}

std::vector<std::pair<double, double>> shown_curve(const SequenceExample& example,
                                                   const InputDescription& input) {
  constexpr size_t most_read = 20, most_points = 300;
  const auto* rows = std::get_if<RowsInput>(&input);
  if (!rows || !rows->names.empty() || example.values.size() <= most_read) return {};
  const auto features = static_cast<size_t>(rows->features);
  const size_t steps = example.values.size() / features, count = std::min(steps, most_points);
  std::vector<std::pair<double, double>> curve;
  for (size_t i = 0; i < count; ++i) {
    const size_t step = i * steps / count;
    curve.emplace_back(static_cast<double>(step + 1), example.values[step * features]);
  }
  return curve;
}

std::vector<std::pair<std::string, double>> weightiest_tokens(const Network& network,
                                                              const std::string& text,
                                                              int64_t of_class, size_t most) {
  const auto& input = network.input<TextInput>();
  const std::vector<int64_t> tokens = input.encode(text);
  const size_t layers = network.model().net->size();
  if (tokens.empty() || layers < 2) return {};
  const Shape shape{std::ssize(tokens), 1};
  Tensor numbers = empty(shape, {.dtype = DType::i64});
  std::ranges::copy(tokens, numbers.data<int64_t>().begin());
  Tensor values;
  {
    const NoGrad no_grad;
    values = network.run_layers({0, 1}, numbers).to(DType::f32).clone();
  }
  if (values.rank() != 3 || values.extent(0) != std::ssize(tokens)) return {};
  values.set_requires_grad();
  const Tensor logits = network.run_layers({1, layers}, values).to(DType::f32);
  std::vector<double> chosen(static_cast<size_t>(logits.count()));
  if (chosen.size() == 1) {
    chosen[0] = of_class == 0 ? -1 : 1;  // a sigmoid's
  } else {
    chosen.at(static_cast<size_t>(of_class)) = 1;
  }
  backward(sum(mul(logits, from_vector(chosen, logits.shape(), {.device = logits.device()}))));
  const Tensor host = mul(values.detach(), values.grad()).to(cpu_device);
  std::vector<std::pair<std::string, double>> weights;
  const auto products = host.data<const float>();
  const size_t width = products.size() / tokens.size();
  for (size_t i = 0; i < tokens.size(); ++i) {
    double sum = 0;
    for (size_t j = 0; j < width; ++j) sum += static_cast<double>(products[i * width + j]);
    const std::string token = input.decode({&tokens[i], 1});
    if (token.empty()) continue;
    const auto known = std::ranges::find(weights, token, [](const auto& one) { return one.first; });
    if (known == weights.end()) {
      weights.emplace_back(token, sum);
    } else {
      known->second += sum;
    }
  }
  std::ranges::stable_sort(weights, [](const auto& a, const auto& b) {
    return std::abs(a.second) > std::abs(b.second);
  });
  weights.resize(std::min(weights.size(), most));
  return weights;
}

}  // namespace whisker
