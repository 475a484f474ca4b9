// Tree to text: block style, short lists of scalars on one line, quotes only where they matter.
#include "core/io/utf8.h"
#include "core/io/yaml.h"

#include <cstdint>
#include <string>

namespace whisker {
namespace {

constexpr size_t line_width = 100;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_null_word(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

// Signs that end or change a plain scalar inside [ ]; '?' does in yaml-cpp.
bool flow_safe(std::string_view text) {
  return text.find_first_of(",[]{}:#?") == std::string_view::npos;
}

// What a viewer obeys, and the byte order mark and its reverse, which readers treat differently.
bool is_unsafe(char32_t c) {
  return is_control(c) || c == 0xfeff || c == 0xfffe || c == 0xffff;
}

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const size_t length = utf8_sequence_length(text);
    const char c = text.front();
    const char32_t code = length > 0 ? code_point(text.substr(0, length)) : 0xfffd;
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (is_unsafe(code)) {
      quoted += fmt::format("\\u{:04x}", uint32_t{code});
    } else {
      quoted += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return quoted + '"';
}

std::string key_text(std::string_view key) {
  return yaml_plain_safe(key) && flow_safe(key) ? std::string(key) : quote(key);
}

std::string scalar_text(const YamlNode& node) {
  if (node.is_null()) return "null";
  return node.quoted() ? quote(node.text()) : node.text();
}

// "[1, 2, 3]", or "" when the list is better written in block style.
std::string flow_text(const YamlNode& node, size_t indent) {
  std::string line = "[";
  for (const YamlNode& item : node.items()) {
    if (!item.is_null() && !item.is_scalar()) return "";
    if (item.is_scalar() && !item.quoted() && !flow_safe(item.text())) return "";
    if (line.size() > 1) line += ", ";
    line += scalar_text(item);
    if (indent + line.size() >= line_width) return "";
  }
  return line + ']';
}

void emit_node(const YamlNode& node, size_t indent, std::string& out);

// What follows "key:" or "-": on the same line, or a block below.
void emit_value(const YamlNode& node, size_t indent, std::string& out) {
  if (node.is_map() && node.size() > 0) {
    out += '\n';
    emit_node(node, indent, out);
  } else if (node.is_sequence() && flow_text(node, indent).empty()) {
    out += '\n';
    emit_node(node, indent, out);
  } else {
    out += ' ';
    emit_node(node, indent, out);
  }
}

void emit_node(const YamlNode& node, size_t indent, std::string& out) {
  const std::string margin(indent, ' ');
  if (node.is_sequence()) {
    if (const std::string line = flow_text(node, indent); !line.empty()) {
      out += line + '\n';
      return;
    }
    for (const YamlNode& item : node.items()) {
      out += margin + '-';
      if (item.is_map() && item.size() > 0) {  // the first key stands beside the dash
        std::string block;
        emit_node(item, indent + 2, block);
        out += ' ' + block.substr(indent + 2);
      } else {
        emit_value(item, indent + 2, out);
      }
    }
  } else if (node.is_map() && node.size() > 0) {
    for (size_t i = 0; i < node.size(); ++i) {
      out += margin + key_text(node.keys()[i]) + ':';
      emit_value(node[i], indent + 2, out);
    }
  } else {
    out += (node.is_map() ? "{}" : scalar_text(node)) + '\n';
  }
}

}  // namespace

bool yaml_plain_safe(std::string_view text) {
  if (is_null_word(text) || text.starts_with("...") || text.starts_with("---")) return false;
  const char first = text.front();
  const bool dash = first == '-' && text.size() > 1 && text[1] != ' ';
  if (!is_letter_or_digit(first) && static_cast<uint8_t>(first) < 0x80 && !dash &&
      std::string_view("./_+(").find(first) == std::string_view::npos) {
    return false;
  }
  if (text.back() == ' ' || text.back() == ':') return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const size_t length = utf8_sequence_length(text.substr(i));
    if (length > 0 && is_unsafe(code_point(text.substr(i, length)))) return false;
    if (c == ':' && text[i + 1] == ' ') return false;  // the last is no ':', so i + 1 exists
    if (c == '#' && i > 0 && text[i - 1] == ' ') return false;
  }
  return true;
}

std::string YamlNode::emit() const {
  std::string out;
  emit_node(*this, 0, out);
  return out;
}

}  // namespace whisker
