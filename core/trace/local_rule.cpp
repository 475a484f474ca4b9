// The formulas as text, from the table of rules.
#include "core/trace/local_rule.h"

#include "core/trace/op_links.h"
#include "core/trace/rule_table.h"

#include <algorithm>
#include <utility>

namespace whisker {
namespace {

std::string equation(const std::string& left, std::string_view right) {
  return right.empty() ? std::string() : fmt::format("{} = {}", left, right);
}

// The formula of matmul's result (position -1) or of one gradient, whose operands may be read
// transposed.
std::string matmul_rule(const TapeEntry& entry, int position) {
  const std::vector<double> transposed = entry.attribute("transpose");
  const auto is = [&](double operand) {
    return std::find(transposed.begin(), transposed.end(), operand) != transposed.end();
  };
  const char *const a = is(0) ? "a^T" : "a", *const b = is(1) ? "b^T" : "b";
  const char *const a_turned = is(0) ? "a" : "a^T", *const b_turned = is(1) ? "b" : "b^T";
  if (position < 0) return fmt::format("y = {} @ {}", a, b);
  if (position == 0) {
    return is(0) ? fmt::format("da = {} @ dy^T", b) : fmt::format("da = dy @ {}", b_turned);
  }
  return is(1) ? fmt::format("db = dy^T @ {}", a) : fmt::format("db = {} @ dy", a_turned);
}

}  // namespace

std::string index_in(const Shape& shape, int64_t element) {
  std::string text;
  for (int axis = shape.rank(); axis-- > 0;) {
    text = fmt::format("{}{}{}", element % shape[axis], text.empty() ? "" : ",", text);
    element /= shape[axis];
  }
  return text.empty() ? text : fmt::format("[{}]", text);
}

std::string operand_name(const TapeEntry& entry, size_t position) {
  const OpRule* const rule = find_rule(entry.name);
  const size_t row = rule_position(entry, position);
  if (entry.name == "concat") return fmt::format("x{}", position);
  if (!rule || row >= most_rule_operands || rule->operands[row].empty()) {
    return fmt::format("input {}", position);
  }
  const bool cells =
      entry.name == "recurrent" && std::ranges::any_of(entry.inputs, [](const TapeInput& input) {
        return input.position >= most_rule_operands;
      });
  const size_t cell = (position - row) / 5;
  return cells && row >= 3 ? fmt::format("{} of cell {}", rule->operands[row], cell)
                           : std::string(rule->operands[row]);
}

std::vector<std::string> saved_names(const Recording& recording, const TapeEntry& entry) {
  std::vector<const TapeInput*> made;  // operands that operators gave
  for (const TapeInput& input : entry.inputs) {
    if (recording.entries[input.entry].kind == TapeKind::op) made.push_back(&input);
  }
  const auto kept = static_cast<size_t>(std::ranges::count(entry.saved, "input", &TapeSaved::what));
  std::vector<std::string> names;
  size_t next = 0;
  for (const TapeSaved& saved : entry.saved) {
    if (saved.what == "output") {
      names.emplace_back("y");
    } else if (saved.what == "input") {
      const auto fits = [&](const TapeInput* one) {
        return recording.entries[one->entry].outputs[one->output].shape == saved.shape;
      };
      const bool every = kept == made.size();
      const auto found = every ? made.begin() + static_cast<std::ptrdiff_t>(next++)
                               : std::ranges::find_if(made, fits);
      const bool one = every || std::ranges::count_if(made, fits) == 1;
      names.push_back(one ? operand_name(entry, (*found)->position) : "an operand");
    } else if (saved.what == "workspace") {
      const bool argmax = entry.name == "max_pool2d" || entry.name == "conv2d_max_pool2d";
      const bool positions = argmax && !is_floating(saved.dtype);
      names.push_back(
          fmt::format("{} {} {}", positions ? "argmax" : "workspace", saved.shape, saved.dtype));
    } else {
      names.push_back(saved.what);
    }
  }
  return names;
}

std::string operator_parts(const TapeEntry& entry) {
  const std::string_view activation = inner_activation(entry);
  if (entry.name == activation) return entry.name;
  const std::string active = activation.empty() ? "" : fmt::format(" + {}", activation);
  constexpr std::pair<std::string_view, std::string_view> fused[] = {
      {"conv2d_max_pool2d", "conv2d{} + max_pool2d"},
      {"batch_norm_max_pool2d", "batch_norm{} + max_pool2d"},
      {"batch_norm_conv2d", "batch_norm{} + conv2d"},
      {"batch_norm_squeeze", "batch_norm{} + mean"},
      {"add_batch_norms", "batch_norm + batch_norm + add{}"}};
  for (const auto& [name, parts] : fused) {
    if (entry.name == name) return fmt::format(fmt::runtime(parts), active);
  }
  return entry.name + active;
}

std::string forward_rule(const TapeEntry& entry) {
  const OpRule* const rule = find_rule(entry.name);
  if (!rule) return {};
  if (rule->name == "matmul") return matmul_rule(entry, -1);
  const std::string_view activation = fused_activation(entry);
  const std::string_view text = forward_text(entry, *rule);
  return activation.empty() ? equation("y", text) : fmt::format("y = {}({})", activation, text);
}

std::string backward_rule(const Recording& recording, const TapeEntry& entry, size_t position) {
  const OpRule* const rule = find_rule(entry.name);
  if (!rule) return {};
  if (rule->name == "matmul") return matmul_rule(entry, static_cast<int>(position));
  std::string text = gradient_rule(entry, *rule, position).shown;
  if (text.empty()) return {};
  if (text.find("dz") != std::string::npos) {
    const std::string_view dz = through_activation(entry);
    if (dz == "dy") {
      for (size_t at = 0; (at = text.find("dz", at)) != std::string::npos;) text[at + 1] = 'y';
    } else {
      text += fmt::format(", dz = {}", dz);
    }
  }
  const TapeOutput* const operand = operand_at(recording, entry, position);
  if (operand && rule->operands[0] == "a" && !(operand->shape == entry.shape())) {
    text += ", summed over what it was broadcast to";
  }
  return fmt::format("d{} = {}", operand_name(entry, position), text);
}

}  // namespace whisker
