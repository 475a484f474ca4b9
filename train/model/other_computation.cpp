#include "train/model/other_computation.h"

#include "core/io/text.h"
#include "layers/layers.h"
#include "layers/weights/tensor_match.h"
#include "train/model/network.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace whisker {
namespace {

struct Computation {
  std::string path, settings;
};

std::string text_of(Pair pair) {
  return pair.h == pair.w ? fmt::to_string(pair.h) : fmt::format("{}x{}", pair.h, pair.w);
}

// Equal windows have equal text: `same` of an odd kernel moved by 1 is a number.
std::string window_text(Pair kernel, Pair stride, Pair padding, PaddingMode mode, Pair dilation) {
  std::string text;
  if (!(stride == Pair(1))) text += fmt::format(" strides {}", text_of(stride));
  if (!(dilation == Pair(1))) text += fmt::format(" dilation {}", text_of(dilation));
  const bool odd = kernel.h % 2 == 1 && kernel.w % 2 == 1;
  if (mode == PaddingMode::same && odd && stride == Pair(1)) {
    padding = Pair(dilation.h * (kernel.h / 2), dilation.w * (kernel.w / 2));
    mode = PaddingMode::number;
  }
  if (mode == PaddingMode::same) return text + " padding same";
  if (mode == PaddingMode::valid || padding == Pair(0)) return text;
  return text + fmt::format(" padding {}", text_of(padding));
}

std::string activation_text(ActivationSpec activation) {
  if (activation.kind == Activation::none) return "";
  const std::string name = fmt::format(" {}", name_of(activation.kind));
  return activation.kind == Activation::leaky_relu
             ? fmt::format("{} {:.3g}", name, activation.slope)
             : name;
}

template <class Pool>
std::string pool_text(const Pool& pool) {
  const Pool2dOptions& o = pool.options();
  return fmt::format(
      " {}{}{}{}", text_of(o.kernel),
      window_text(o.kernel, o.stride.value_or(o.kernel), o.padding, o.padding_mode, 1),
      o.ceil ? " ceil" : "", o.count_padding ? " count_padding" : "");
}

// What a layer computes, beside what the shapes of its tensors say.
std::string settings_of(const Module& module) {
  std::string text = module.type();
  if (const auto* conv = dynamic_cast<const Conv2D*>(&module)) {
    const auto& o = conv->options();
    text += window_text(o.kernel, o.stride, o.padding, o.padding_mode, o.dilation) +
            activation_text(o.activation);
    if (o.max_pool) {
      text += fmt::format(
          " max_pool {}{}", text_of(o.max_pool->kernel),
          window_text(o.max_pool->kernel, o.max_pool->stride.value_or(o.max_pool->kernel),
                      o.max_pool->padding, o.max_pool->padding_mode, 1));
    }
  } else if (const auto* dense = dynamic_cast<const Dense*>(&module)) {
    text += activation_text(dense->options().activation);
  } else if (const auto* batch_norm = dynamic_cast<const BatchNorm*>(&module)) {
    text += fmt::format(" epsilon {:g}{}", batch_norm->options().epsilon,
                        activation_text(batch_norm->options().activation));
  } else if (const auto* layer_norm = dynamic_cast<const LayerNorm*>(&module)) {
    text += fmt::format(" epsilon {:g}", layer_norm->options().epsilon);
  } else if (const auto* group_norm = dynamic_cast<const GroupNorm*>(&module)) {
    text += fmt::format(" groups {} epsilon {:g}", group_norm->options().groups,
                        group_norm->options().epsilon);
  } else if (const auto* max_pool = dynamic_cast<const MaxPool2D*>(&module)) {
    text += pool_text(*max_pool);
  } else if (const auto* average_pool = dynamic_cast<const AvgPool2D*>(&module)) {
    text += pool_text(*average_pool);
  } else if (const auto* attention = dynamic_cast<const MultiHeadAttention*>(&module)) {
    text += fmt::format(" heads {}", attention->options().heads);
  } else if (const auto* residual = dynamic_cast<const Residual*>(&module)) {
    text += activation_text(residual->options().activation);
  } else if (const auto* recurrent = dynamic_cast<const Recurrent*>(&module)) {
    if (recurrent->options().kind == RecurrentKind::rnn_relu) text += " relu";
  }
  return text;
}

// In order, up to the head; without what only acts in training. True where the head was reached.
bool add_computations(const Module& module, const Model& model, const InitConfig& init,
                      std::vector<Computation>& all) {
  const std::string& path = module.path();
  const bool selectable = !path.empty();
  if (selectable && any_selects(model.head, path)) return true;
  if (selectable && any_selects(init.skip, path)) return false;
  const bool silent = dynamic_cast<const Sequential*>(&module) ||
                      dynamic_cast<const Dropout*>(&module) ||
                      dynamic_cast<const DropPath*>(&module);
  if (!silent) all.push_back({.path = path, .settings = settings_of(module)});
  for (const Module::Child& child : module.children()) {
    if (add_computations(*child.module, model, init, all)) return true;
  }
  return false;
}

std::vector<Computation> computations_of(const Model& model, const InitConfig& init) {
  std::vector<Computation> all;
  add_computations(*model.net, model, init, all);
  return all;
}

std::optional<Model> model_in(const SafetensorsFile& file) {
  if (!file.metadata().contains("config")) return std::nullopt;
  try {
    return WeightsInfo::from_file(file).build(file.name()).model;
  } catch (const Error&) {  // another format's config: the tensors decide
    return std::nullopt;
  }
}

}  // namespace

std::string other_computation(const SafetensorsFile& file, const Model& model,
                              const InitConfig& init) {
  const std::optional<Model> trained = model_in(file);
  if (!trained) return "";
  const std::vector<Computation> there = computations_of(*trained, init),
                                 here = computations_of(model, init);
  const auto [other, own] =
      std::ranges::mismatch(there, here, {}, &Computation::settings, &Computation::settings);
  if (other == there.end() && own == here.end()) return "";
  const auto named = [](auto found, const auto& all) {
    return found == all.end() ? std::string("no layer")
                              : fmt::format("{} ({})", found->settings, printable(found->path));
  };
  return fmt::format(
      "warning: the weights of {} were trained in a network that computes otherwise: {} there, {} "
      "here. model=from_weights follows the weights.",
      printable(file.name()), named(other, there), named(own, here));
}

}  // namespace whisker
