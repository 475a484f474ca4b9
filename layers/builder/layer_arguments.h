// The settings of one layer in a model file, read once each under any of their known names; what
// nobody asked for is an error with its place and the nearest name.
#pragma once

#include "core/io/yaml.h"
#include "core/ops/ops.h"
#include "layers/initializers.h"

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

class LayerArguments {
 public:
  /// A setting's name and its synonyms, the preferred one first.
  using Names = std::initializer_list<std::string_view>;

  /// `item` is the layer's entry in the list, `value` what stands under its type (null: nothing):
  /// a map of settings, or the value of `short_name` alone. `defaults` and `overrides` may be null.
  LayerArguments(const YamlNode& item, const YamlNode& value, const YamlNode* defaults,
                 std::string_view short_name, const YamlNode* overrides = nullptr);

  /// The setting's node: of the overrides, else of the layer, else of the defaults, else null.
  /// Throws usage when it is given under two names.
  const YamlNode* find(Names names);
  /// find(), but throws usage, naming the setting, when it is missing.
  const YamlNode& required(Names names);

  int64_t integer(Names names, YamlRange<int64_t> range, int64_t otherwise);
  double number(Names names, YamlRange<double> range, double otherwise);
  bool boolean(Names names, bool otherwise);
  std::string text(Names names, std::string_view otherwise);
  /// A number for both directions, or [height, width].
  std::optional<Pair> pair(Names names, int64_t least);

  /// Throws usage for the first setting that was never asked for.
  void finish() const;

  /// Where the layer stands: "cats.yaml:14:9: model.layers[3]".
  std::string place() const;

 private:
  const YamlNode* find_in(const YamlNode* map, Names names) const;
  bool is_known(const std::string& key) const;
  void refuse_unknown(const YamlNode* map) const;

  const YamlNode* item_;
  const YamlNode* settings_ = nullptr;     // a map, or null
  const YamlNode* short_value_ = nullptr;  // given instead of a map
  const YamlNode* defaults_;
  const YamlNode* overrides_;
  std::string short_name_;
  std::vector<std::string> known_;
};

/// "file:line:column: key.path" of a node.
std::string place_of(const YamlNode& node);

/// "relu", or {leaky_relu: 0.2}. Throws usage for other names.
ActivationSpec read_activation(const YamlNode& node);
/// "glorot_uniform", or {normal: {deviation: 0.01}}. Throws usage for other names and parameters.
InitializerSpec read_initializer(const YamlNode& node);
/// Throws usage at a key: unknown `what`, with the nearest of `known`, else all of them.
[[noreturn]] void fail_unknown_key(const YamlNode& map, size_t index, std::string_view what,
                                   const std::vector<std::string>& known);
/// fail_unknown() for the text of `node`.
[[noreturn]] void fail_unknown(const YamlNode& node, std::string_view what,
                               const std::vector<std::string>& known);

}  // namespace whisker
