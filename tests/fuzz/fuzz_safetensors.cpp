// Any bytes as a weights file give a checked file or one checkpoint error; what is loaded from it,
// and what it says of its inputs, makes no NaN or Inf.
#include "core/io/safetensors.h"
#include "layers/weights/weights.h"
#include "train/model/signature.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <set>
#include <span>

namespace whisker {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check_layout(const SafetensorsFile& file, size_t size) {
  uint64_t total = 0, sum = 0;
  for (const SafetensorsTensor& tensor : file.tensors()) {
    total += tensor.bytes.size();
    for (const std::byte byte : tensor.bytes) sum += std::to_integer<uint64_t>(byte);
    require(file.find(tensor.name) == &tensor);
  }
  require(total <= size && sum <= size * 255);
}

// The model of the seed `weights`.
void check_weights(const SafetensorsFile& file) {
  static const Model model = build_model(
      YamlNode::parse("layers: [{dense: {name: fc, units: 2}}]", "fuzz"), {.input = {1, 2}});
  ParameterArena arena(model.net->parameters(), cpu_device, 1);
  load_weights(file, model, arena);
  for (const auto& parameter : arena.parameters()) {
    for (const float value : arena.read(*parameter)) require(std::isfinite(value));
  }
}

void check_scaling(std::span<const Scaling> scaling) {
  for (const Scaling& one : scaling) {
    for (const double value : {0.0, 1e5})
      require(std::isfinite(static_cast<float>(one.apply(value))));
  }
}

void check_signature(const SafetensorsFile& file) {
  const Signature signature = Signature::from_metadata(file.metadata(), file.name());
  const std::set<std::string> names(signature.classes.begin(), signature.classes.end());
  const bool own = file.metadata().contains("config") || file.metadata().contains("sequence");
  require(!own || names.size() == signature.classes.size());
  if (const auto* images = std::get_if<Preprocess>(&signature.input)) {
    const Normalisation& pixels = images->normalisation;
    for (size_t c = 0; c < 3; ++c)
      require(std::isfinite(255 * pixels.factor(c) + pixels.offset(c)));
  } else if (const auto* rows = std::get_if<RowsInput>(&signature.input)) {
    check_scaling(rows->scaling);
  } else if (const auto* series = std::get_if<SeriesInput>(&signature.input)) {
    check_scaling(series->scaling);
    check_scaling(series->target_scaling);
  }
}

// Runs `check`, which may refuse the file as one.
void may_refuse(const std::function<void()>& check) {
  try {
    check();
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::checkpoint);
  }
}

}  // namespace
}  // namespace whisker

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace whisker;
  may_refuse([&] {
    const SafetensorsFile file =
        SafetensorsFile::parse(std::as_bytes(std::span(data, size)), "fuzz");
    check_layout(file, size);
    may_refuse([&] { check_weights(file); });
    may_refuse([&] { check_signature(file); });
  });
  return 0;
}
