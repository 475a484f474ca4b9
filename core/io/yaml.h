// YAML as Whisker reads it: a small tree whose nodes know their file, line, column and dotted path.
// Scalars stay text until a typed getter reads them, so that the field's type decides whether `no`
// is text or a bool.
//
// Note [YAML subset]: one document of at most 1 MiB of UTF-8, 16 levels, 10,000 nodes, block and
// flow style; no anchors, aliases, tags or complex keys; keys of at most 256 bytes, each once.
// Anything else is one error with its position.
#pragma once

#include "core/error.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// Position of a node. Line and column count from 1 (columns in code points); line 0 means that the
/// source has no lines (the command line).
struct YamlMark {
  std::shared_ptr<const std::string> source;
  int line = 0;
  int column = 0;

  /// "cats.yaml:14:9" or "command line".
  std::string str() const;
};

/// Limits of as_int and as_double, inclusive; the error names them.
template <class T>
struct YamlRange {
  T min = std::numeric_limits<T>::lowest();
  T max = std::numeric_limits<T>::max();
};

class YamlNode {
 public:
  enum class Kind { null, scalar, sequence, map };

  /// A null node without a position, the start of a tree built by set().
  YamlNode() = default;

  /// The tree of `text`; empty text gives a null node. Throws usage as Note [YAML subset] says.
  static YamlNode parse(std::string_view text, const std::string& source);
  /// The tree of a file; throws usage when it cannot be read.
  static YamlNode parse_file(const std::filesystem::path& path);

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::null; }
  bool is_scalar() const { return kind_ == Kind::scalar; }
  bool is_sequence() const { return kind_ == Kind::sequence; }
  bool is_map() const { return kind_ == Kind::map; }

  const YamlMark& mark() const { return mark_; }
  /// "model.layers[2].filters"; "" for the root.
  std::string path() const;

  /// Text of a scalar, "" for other kinds.
  const std::string& text() const { return text_; }
  /// Whether a scalar can only be text: it was quoted, a block scalar, or holds signs that the
  /// emitter quotes.
  bool quoted() const { return quoted_; }

  /// Elements of a sequence or values of a map, in order; empty for other kinds.
  std::span<const YamlNode> items() const { return items_; }
  size_t size() const { return items_.size(); }
  const YamlNode& operator[](size_t index) const { return items_[index]; }
  /// Keys of a map, in order; keys()[i] belongs to items()[i].
  const std::vector<std::string>& keys() const { return keys_; }
  /// Where the key of items()[i] stands.
  const YamlMark& key_mark(size_t index) const { return key_marks_[index]; }
  /// Value under a key; nullptr when absent or when this is no map.
  const YamlNode* find(std::string_view key) const;
  /// Node at a dotted path such as "model.layers[2].filters"; nullptr when absent.
  const YamlNode* find_path(std::string_view dotted) const;

  /// Typed values of scalars. Errors: `file:line:col: key.path: expected ..., got '...'`.
  std::string as_string() const;
  /// true/false, yes/no, on/off in lower, upper or title case.
  bool as_bool() const;
  /// Decimal, no leading zeros; `1e3` is 1000.
  int64_t as_int(YamlRange<int64_t> range = {}) const;
  /// Decimal with optional exponent; NaN and infinities (.nan, .inf, -.inf) only when asked for.
  double as_double(YamlRange<double> range = {}, bool allow_non_finite = false) const;
  /// Checks the kind and returns the elements.
  std::span<const YamlNode> as_sequence() const;
  /// Checks that this is a map.
  const YamlNode& as_map() const;

  /// Throws usage: place, path, "expected {expected}, got {what is there}." and the remedy.
  [[noreturn]] void fail_expected(std::string_view expected, std::string_view remedy = "") const;
  /// Throws usage for the i-th key: its place, its path and `message`.
  [[noreturn]] void fail_at_key(size_t index, std::string_view message) const;

  /// Replaces or adds the value at a dotted path; maps are made where keys are missing, sequence
  /// indices must exist. Throws usage naming the path when it leads through a scalar.
  void set(std::string_view dotted, YamlNode value);
  /// Applies an override "section.key=value", value read as YAML, with the position "command line".
  void set_override(std::string_view assignment);
  /// Merges `over` into this tree: maps merge key by key, everything else is replaced.
  void merge(const YamlNode& over);

  /// A copy in which each `{word}` in a scalar is replaced by its text. Words without one stay.
  YamlNode with_words(const std::map<std::string, std::string>& words) const;

  /// Tidy block YAML ending in a newline; parsing it gives an equal tree.
  std::string emit() const;

  /// Same kinds, texts, keys and order; positions do not count.
  bool operator==(const YamlNode& other) const;

 private:
  friend class YamlTreeBuilder;

  // One step from the root: immutable and shared, so that nodes copy cheaply.
  struct PathLink {
    std::shared_ptr<const PathLink> parent;
    std::string key;  // of a map
    size_t index = 0;
    bool is_key = false;
  };

  void adopt(std::shared_ptr<const PathLink> path);
  YamlNode& child_for_key(std::string_view key, const YamlMark& mark);
  std::string where() const;
  std::string description() const;

  Kind kind_ = Kind::null;
  bool quoted_ = false;
  std::string text_;
  std::vector<std::string> keys_;
  std::vector<YamlMark> key_marks_;
  std::vector<YamlNode> items_;
  YamlMark mark_;
  std::shared_ptr<const PathLink> path_;
};

/// Whether the emitter writes `text` without quotes and the parser reads it back as it was.
bool yaml_plain_safe(std::string_view text);

}  // namespace whisker
