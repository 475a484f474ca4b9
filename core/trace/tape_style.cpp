#include "core/trace/tape_style.h"

#include "core/draw/markup.h"

#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>

namespace whisker {
namespace {

constexpr TapeFamily families[] = {
    {"product", "products: conv2d, linear, matmul", "#e3edf9", "#4a7ab5", "#1d3350", "#6fa3e0"},
    {"norm", "normalisation", "#eae6f6", "#7c68b0", "#332a4f", "#a794dc"},
    {"pool", "pooling", "#dff1f0", "#3f8f8a", "#17403d", "#5fbdb6"},
    {"other", "other operators", "#f4f5f7", "#7f8a97", "#262c36", "#8d98a6"},
    {"loss", "loss", "#fbe5e1", "#b9523f", "#4c231b", "#e08a78"},
    {"leaf", "parameter: gradients accumulate (round)", "#fdf2d8", "#c39534", "#43340f", "#d9ae55"},
    {"constant", "input: wants no gradient (sharp corners)", "#e5f2e0", "#65994f", "#203a18",
     "#86bd70"},
    {"frozen", "not recorded: no operand wants a gradient", "#fafafa", "#8d96a1", "#1b2027",
     "#76808d"}};

const TapeFamily& named(std::string_view name) {
  return *std::ranges::find(families, name, &TapeFamily::name);
}

}  // namespace

std::span<const TapeFamily> tape_families() {
  return families;
}

const TapeFamily& family_of(const TapeEntry& entry) {
  const auto any = [&](std::initializer_list<std::string_view> parts) {
    return std::ranges::any_of(
        parts, [&](std::string_view part) { return entry.name.find(part) != std::string::npos; });
  };
  if (entry.kind == TapeKind::leaf) return named("leaf");
  if (entry.kind == TapeKind::constant) return named("constant");
  if (!entry.recorded) return named("frozen");
  if (any({"entropy", "mse"})) return named("loss");
  if (any({"conv", "linear", "matmul", "embedding", "recurrent", "attention"}))
    return named("product");
  if (any({"norm"})) return named("norm");
  if (any({"pool"})) return named("pool");
  return named("other");
}

std::string tape_rules() {
  std::string text;
  for (const TapeFamily& one : families) {
    const std::string selector = fmt::format(".{}", one.name);
    const std::string light =
        fmt::format("fill: {}; stroke: {}; stroke-width: 1.2{}", one.fill, one.stroke,
                    one.name == "frozen" ? "; stroke-dasharray: 4 3" : "");
    const std::string dark = fmt::format("fill: {}; stroke: {}", one.dark_fill, one.dark_stroke);
    text += svg_rules(std::initializer_list<SvgRule>{{selector, light, dark}});
  }
  constexpr SvgRule of_text[] = {{".op", "font-size: 12.5px; font-weight: bold", ""},
                                 {".shape", "fill: #23456e", "fill: #9fc3ee"},
                                 {".grad", "fill: #a2331f", "fill: #ffab91"}};
  return text + svg_rules(of_text);
}

}  // namespace whisker
