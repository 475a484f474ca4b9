// Bytes to tree through yaml-cpp's event interface. Its own tree is not used: it takes duplicate
// keys and self-containing aliases, and its LoadAll(",") never returns. See Note [YAML subset].
#include "core/io/file.h"
#include "core/io/text.h"
#include "core/io/utf8.h"
#include "core/io/yaml.h"

#include <algorithm>
#include <cstdint>
#include <sstream>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

namespace whisker {
namespace {

constexpr size_t max_bytes = 1 << 20;
constexpr size_t max_nesting = 16;
constexpr size_t max_nodes = 10'000;
constexpr size_t max_key_bytes = 256;
// yaml-cpp queues up to 280 bytes for each of these while it waits for a bracket to close; 10,000
// nodes need far fewer.
constexpr std::string_view token_signs = "[]{},:?'\"&*!";
constexpr size_t max_token_signs = 131'072;
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

// Code points that YAML 1.2 (section 5.1, c-printable) leaves out. yaml-cpp takes some of them for
// the end of the text or for another encoding.
bool is_printable(std::string_view sequence) {
  const auto lead = static_cast<uint8_t>(sequence[0]);
  if (sequence.size() == 1) {
    return (lead >= 0x20 && lead != 0x7f) || lead == '\t' || lead == '\n' || lead == '\r';
  }
  if (lead == 0xc2) return static_cast<uint8_t>(sequence[1]) >= 0xa0 || sequence[1] == '\x85';
  return sequence != "\xef\xbf\xbe" && sequence != "\xef\xbf\xbf";
}

}  // namespace

/// Handler of yaml-cpp's events for one document; every limit is enforced as the events come, so
/// no input makes the parser recurse or grow beyond them.
class YamlTreeBuilder : public YAML::EventHandler {
 public:
  YamlTreeBuilder(std::string_view text, const std::string& source)
      : text_(text), source_(std::make_shared<const std::string>(source)) {
    line_starts_.push_back(0);
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') line_starts_.push_back(i + 1);
    }
  }

  YamlNode take_root() { return std::move(root_); }

  YamlMark mark_at(const YAML::Mark& mark) const {
    YamlMark ours{source_, std::max(mark.line, 0) + 1, 1};
    if (const auto line = static_cast<size_t>(ours.line - 1); line < line_starts_.size()) {
      const auto bytes = static_cast<size_t>(std::max(mark.column, 0));
      const std::string_view rest = text_.substr(line_starts_[line]);
      ours.column += static_cast<int>(count_code_points(rest.substr(0, bytes)));
    }
    return ours;
  }

  /// Why yaml-cpp may stumble at a line that looks right: it, or the one before, begins with a tab.
  std::string tab_hint(int line) const {
    for (int one = std::max(line - 1, 1); one <= line; ++one) {
      const auto index = static_cast<size_t>(one - 1);
      if (index >= line_starts_.size()) break;
      const std::string_view rest = text_.substr(line_starts_[index]);
      const size_t first = rest.find_first_not_of(' ');
      if (first != std::string_view::npos && rest[first] == '\t') {
        return fmt::format(" Line {} begins with a tab; YAML is indented by spaces.", one);
      }
    }
    return "";
  }

  YamlMark mark_at_byte(size_t byte) const {
    const auto next = std::upper_bound(line_starts_.begin(), line_starts_.end(), byte);
    const size_t line = static_cast<size_t>(next - line_starts_.begin()) - 1;
    const std::string_view before = text_.substr(line_starts_[line], byte - line_starts_[line]);
    return {source_, static_cast<int>(line) + 1, static_cast<int>(count_code_points(before)) + 1};
  }

  [[noreturn]] void refuse(const YamlMark& mark, std::string_view expected) const {
    fail(ErrorKind::usage, "{}: expected {}{}", mark.str(), expected,
         expected.ends_with('?') ? "" : ".");
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) refuse(mark_at(mark), "one YAML document, got more after its end");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check_properties(mark, "?", anchor);
    if (expects_key()) refuse(mark_at(mark), "a key before ':', got none. Quote a key named null");
    YamlNode& node = place(mark);
    // yaml-cpp places a value that is not there at the token after it; we place it at its key.
    if (!stack_.empty() && stack_.back().node->is_map()) {
      const YamlMark& key_mark = stack_.back().node->key_marks_.back();
      if (node.mark_.line != key_mark.line) node.mark_ = key_mark;
    }
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark_at(mark), "no aliases; quote a text that begins with '*'");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const bool quoted = tag == "!" && starts_quoted(mark);
    check_properties(mark, quoted ? "!" : "?", anchor, tag);
    if (find_invalid_utf8(value) !=
        std::string_view::npos) {  // yaml-cpp's own \N and \_ are Latin-1
      refuse(mark_at(mark), "no escapes \\N and \\_; write \\u0085 and \\u00a0");
    }
    if (value.find('\0') != std::string::npos) {  // a path would end there
      refuse(mark_at(mark), "no NUL; leave out the escape \\0");
    }
    if (expects_key()) {
      add_key(mark, value);
      return;
    }
    YamlNode& node = place(mark);
    node.kind_ = YamlNode::Kind::scalar;
    node.text_ = value;
    node.quoted_ = quoted || !yaml_plain_safe(value);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::sequence);
  }
  void OnSequenceEnd() override { stack_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::map);
  }
  void OnMapEnd() override { stack_.pop_back(); }

  void OnAnchor(const YAML::Mark& mark, const std::string&) override {
    refuse(mark_at(mark), "no anchors; quote a text that begins with '&'");
  }

 private:
  struct Open {
    YamlNode* node;
    bool key_pending;  // of a map: the key has come, its value not yet
  };

  bool expects_key() const {
    return !stack_.empty() && stack_.back().node->is_map() && !stack_.back().key_pending;
  }

  // yaml-cpp reports "!" both for quotes and for an explicit `!`; the text tells them apart.
  bool starts_quoted(const YAML::Mark& mark) const {
    const auto line = static_cast<size_t>(std::max(mark.line, 0));
    if (line >= line_starts_.size()) return false;
    const size_t byte = line_starts_[line] + static_cast<size_t>(std::max(mark.column, 0));
    return byte < text_.size() && std::string_view("\"'|>").find(text_[byte]) != std::string::npos;
  }

  void check_properties(const YAML::Mark& mark, std::string_view expected_tag,
                        YAML::anchor_t anchor, std::string_view tag = "?") const {
    if (anchor != 0) refuse(mark_at(mark), "no anchors; quote a text that begins with '&'");
    if (tag != expected_tag) refuse(mark_at(mark), "no tags; quote a text that begins with '!'");
  }

  void add_key(const YAML::Mark& mark, const std::string& key) {
    Open& top = stack_.back();
    YamlNode& map = *top.node;
    if (key.size() > max_key_bytes) {
      refuse(mark_at(mark), fmt::format("keys of at most {} bytes", max_key_bytes));
    }
    map.keys_.push_back(key);
    map.key_marks_.push_back(mark_at(mark));
    top.key_pending = true;
  }

  // Adds a null node where the next value belongs. Parents are never touched while a child is open,
  // so pointers on the stack stay valid.
  YamlNode& place(const YAML::Mark& mark) {
    if (++nodes_ > max_nodes) {
      refuse(mark_at(mark), fmt::format("at most {} values in one file", max_nodes));
    }
    YamlNode* node = &root_;
    if (!stack_.empty()) {
      Open& top = stack_.back();
      auto link = std::make_shared<YamlNode::PathLink>();
      link->parent = top.node->path_;
      link->is_key = top.node->is_map();
      link->index = top.node->items_.size();
      if (link->is_key) link->key = top.node->keys_.back();
      node = &top.node->items_.emplace_back();
      node->path_ = std::move(link);
      top.key_pending = false;
    }
    node->mark_ = mark_at(mark);
    return *node;
  }

  void open(const YAML::Mark& mark, std::string_view tag, YAML::anchor_t anchor,
            YamlNode::Kind kind) {
    check_properties(mark, "?", anchor, tag);
    if (expects_key())
      refuse(mark_at(mark), "text as a key, got a list or a map; is a bracket not closed?");
    if (stack_.size() >= max_nesting) {
      refuse(mark_at(mark), fmt::format("at most {} nested lists and maps", max_nesting));
    }
    YamlNode& node = place(mark);
    node.kind_ = kind;
    stack_.push_back({&node, false});
  }

  std::string_view text_;
  std::shared_ptr<const std::string> source_;
  std::vector<size_t> line_starts_;
  YamlNode root_;
  std::vector<Open> stack_;
  size_t nodes_ = 0;
  int documents_ = 0;
};

namespace {

// Duplicates are looked for once per map, sorted: 10,000 keys stay far below a second.
void refuse_duplicates(const YamlNode& node) {
  std::vector<size_t> order(node.keys().size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return node.keys()[a] < node.keys()[b]; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (node.keys()[order[i - 1]] == node.keys()[order[i]]) {
      node.fail_at_key(order[i], fmt::format("expected each key once, line {} has it already.",
                                             node.key_mark(order[i - 1]).line));
    }
  }
  for (const YamlNode& item : node.items()) refuse_duplicates(item);
}

void check_bytes(std::string_view text, const YamlTreeBuilder& builder) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_sequence_length(text.substr(i));
    if (length == 0 || !is_printable(text.substr(i, length))) {
      builder.refuse(builder.mark_at_byte(i), fmt::format("printable UTF-8, got byte 0x{:02x}",
                                                          static_cast<uint8_t>(text[i])));
    }
    i += length;
  }
  const auto signs = std::count_if(text.begin(), text.end(), [](char c) {
    return token_signs.find(c) != std::string_view::npos;
  });
  if (static_cast<size_t>(signs) > max_token_signs) {
    builder.refuse(builder.mark_at_byte(0),
                   fmt::format("at most {} of the characters {} in one file, got {}",
                               max_token_signs, token_signs, signs));
  }
}

}  // namespace

YamlNode YamlNode::parse(std::string_view text, const std::string& source) {
  if (text.size() > max_bytes) {
    fail(ErrorKind::usage, "{}: expected at most {} of YAML, got {}.", source,
         human_bytes(max_bytes), human_bytes(text.size()));
  }
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  YamlTreeBuilder builder(text, source);
  check_bytes(text, builder);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    // The second call must find nothing: it throws for another document and for text like ",",
    // which yaml-cpp reports again and again without consuming it.
    if (parser.HandleNextDocument(builder)) parser.HandleNextDocument(builder);
  } catch (const YAML::Exception& error) {
    const YamlMark mark = builder.mark_at(error.mark);
    fail(ErrorKind::usage, "{}: expected YAML, got a syntax error: {}.{}", mark.str(), error.msg,
         builder.tab_hint(mark.line));
  }
  YamlNode root = builder.take_root();
  if (!root.mark_.source) root.mark_ = builder.mark_at_byte(0);
  refuse_duplicates(root);
  return root;
}

YamlNode YamlNode::parse_file(const std::filesystem::path& path) {
  return parse(read_file(path, max_bytes, ErrorKind::usage, Source::stream),
               printable(path.string()));
}

}  // namespace whisker
