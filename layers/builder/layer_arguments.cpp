// Lookups by any name, typed by YamlNode's getters.
#include "layers/builder/layer_arguments.h"

#include "core/io/text.h"
#include "layers/activation.h"

#include <algorithm>

namespace whisker {

std::string place_of(const YamlNode& node) {
  const std::string mark = node.mark().str(), path = node.path();
  return path.empty() ? mark : mark + ": " + path;
}

void fail_unknown_key(const YamlNode& map, size_t index, std::string_view what,
                      const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(map.keys()[index], known);
  if (nearest.empty()) {
    map.fail_at_key(index, fmt::format("unknown {}; known are {}", what, fmt::join(known, ", ")));
  }
  map.fail_at_key(index, fmt::format("unknown {}; did you mean '{}'?", what, nearest));
}

void fail_unknown(const YamlNode& node, std::string_view what,
                  const std::vector<std::string>& known) {
  const std::string name = printable(node.text()), nearest = nearest_name(node.text(), known);
  if (!nearest.empty()) {
    fail(ErrorKind::usage, "{}: unknown {} '{}'; did you mean '{}'?", place_of(node), what, name,
         nearest);
  }
  fail(ErrorKind::usage, "{}: unknown {} '{}'; known are {}", place_of(node), what, name,
       fmt::join(known, ", "));
}

LayerArguments::LayerArguments(const YamlNode& item, const YamlNode& value,
                               const YamlNode* defaults, std::string_view short_name,
                               const YamlNode* overrides)
    : item_(&item), defaults_(defaults), overrides_(overrides), short_name_(short_name) {
  if (value.is_map()) {
    settings_ = &value;
  } else if (!value.is_null()) {
    if (short_name.empty()) value.fail_expected("a map of settings");
    short_value_ = &value;
  }
}

std::string LayerArguments::place() const {
  return place_of(*item_);
}

const YamlNode* LayerArguments::find_in(const YamlNode* map, Names names) const {
  const YamlNode* found = nullptr;
  std::string_view found_name;
  for (const std::string_view name : names) {
    const YamlNode* node = map ? map->find(name) : nullptr;
    if (!node) continue;
    if (found) {
      fail(ErrorKind::usage, "{}: the same as '{}', which is given too; keep one", place_of(*node),
           found_name);
    }
    found = node;
    found_name = name;
  }
  return found;
}

const YamlNode* LayerArguments::find(Names names) {
  known_.insert(known_.end(), names.begin(), names.end());
  if (const YamlNode* over = find_in(overrides_, names)) return over;
  if (short_value_ && *names.begin() == short_name_) return short_value_;
  if (const YamlNode* own = find_in(settings_, names)) return own;
  return find_in(defaults_, names);
}

const YamlNode& LayerArguments::required(Names names) {
  if (const YamlNode* node = find(names)) return *node;
  const std::vector<std::string> wanted(names.begin(), names.end());
  for (size_t i = 0; settings_ && i < settings_->keys().size(); ++i) {
    const std::string nearest = nearest_name(settings_->keys()[i], wanted);
    if (nearest.empty() || is_known(settings_->keys()[i])) continue;
    settings_->fail_at_key(i, fmt::format("unknown key; did you mean '{}'?", nearest));
  }
  fail(ErrorKind::usage, "{}: '{}' is missing", place(), *names.begin());
}

int64_t LayerArguments::integer(Names names, YamlRange<int64_t> range, int64_t otherwise) {
  const YamlNode* node = find(names);
  return node ? node->as_int(range) : otherwise;
}

double LayerArguments::number(Names names, YamlRange<double> range, double otherwise) {
  const YamlNode* node = find(names);
  return node ? node->as_double(range) : otherwise;
}

bool LayerArguments::boolean(Names names, bool otherwise) {
  const YamlNode* node = find(names);
  return node ? node->as_bool() : otherwise;
}

std::string LayerArguments::text(Names names, std::string_view otherwise) {
  const YamlNode* node = find(names);
  return node ? node->as_string() : std::string(otherwise);
}

std::optional<Pair> LayerArguments::pair(Names names, int64_t least) {
  const YamlNode* node = find(names);
  if (!node) return std::nullopt;
  const YamlRange<int64_t> range{.min = least, .max = 65'535};
  if (!node->is_sequence()) return Pair(node->as_int(range));
  if (node->size() != 2) node->fail_expected("a number or [height, width]");
  return Pair((*node)[0].as_int(range), (*node)[1].as_int(range));
}

bool LayerArguments::is_known(const std::string& key) const {
  return std::find(known_.begin(), known_.end(), key) != known_.end();
}

void LayerArguments::refuse_unknown(const YamlNode* map) const {
  if (!map) return;
  for (size_t i = 0; i < map->keys().size(); ++i) {
    if (!is_known(map->keys()[i])) fail_unknown_key(*map, i, "key", known_);
  }
}

void LayerArguments::finish() const {
  refuse_unknown(settings_);
  refuse_unknown(defaults_);
  refuse_unknown(overrides_);
}

ActivationSpec read_activation(const YamlNode& node) {
  if (node.is_null()) return {};
  if (node.is_map() && node.size() == 1 && node.keys()[0] == "leaky_relu") {
    return {.kind = Activation::leaky_relu,
            .slope = static_cast<float>(node[0].as_double({.min = 0, .max = 1}))};
  }
  if (!node.is_scalar()) node.fail_expected("the name of an activation, or {leaky_relu: slope}");
  const std::optional<Activation> kind = find_activation(node.text());
  if (!kind) fail_unknown(node, "activation", activation_names());
  return {.kind = *kind};
}

InitializerSpec read_initializer(const YamlNode& node) {
  const bool with_parameters = node.is_map() && node.size() == 1;
  if (!node.is_scalar() && !with_parameters) {
    node.fail_expected("the name of an initializer, or {name: {parameter: value}}");
  }
  const std::string& name = with_parameters ? node.keys()[0] : node.text();
  const std::optional<InitializerSpec> found = find_initializer(name);
  if (!found) {
    if (!with_parameters) fail_unknown(node, "initializer", initializer_names());
    fail_unknown_key(node, 0, "initializer", initializer_names());
  }
  InitializerSpec spec = *found;
  if (!with_parameters) return spec;
  using enum InitializerKind;
  LayerArguments arguments(node, node[0], nullptr, spec.kind == constant ? "value" : "");
  constexpr YamlRange<double> any{.min = -1e6, .max = 1e6}, positive{.min = 0, .max = 1e6};
  switch (spec.kind) {
    case kaiming_uniform:
    case kaiming_normal:
      spec.slope = arguments.number({"slope", "a"}, positive, spec.slope);
      if (const YamlNode* mode = arguments.find({"mode"})) {
        if (mode->text() != "fan_in" && mode->text() != "fan_out") {
          mode->fail_expected("fan_in or fan_out");
        }
        spec.fan_out = mode->text() == "fan_out";
      }
      break;
    case uniform:
      spec.low = arguments.number({"low", "minval"}, any, spec.low);
      spec.high = arguments.number({"high", "maxval"}, any, spec.high);
      break;
    case normal:
      spec.mean = arguments.number({"mean"}, any, spec.mean);
      spec.deviation = arguments.number({"deviation", "std", "stddev"}, positive, spec.deviation);
      break;
    case constant:
      spec.value = arguments.number({"value"}, any, spec.value);
      break;
    case torch_default:
    case glorot_uniform:
    case glorot_normal:
    case orthogonal:
      break;
  }
  arguments.finish();
  return spec;
}

}  // namespace whisker
