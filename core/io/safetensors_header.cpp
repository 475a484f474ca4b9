// A SAX handler over nlohmann-json: iterative, no tree, unsigned integers only.
// Unknown fields of a tensor are skipped, as Python does, to serde's depth of 127.
#include "core/io/safetensors_header.h"

#include "core/io/safetensors.h"
#include "core/io/text.h"

#include <algorithm>
#include <array>
#include <optional>

#include <nlohmann/json.hpp>

namespace whisker {
namespace {

constexpr int max_depth = 127;
constexpr size_t max_names = 65'536;
constexpr size_t max_axes = 64;
constexpr size_t max_token_bytes = 16 << 20;

// Bytes of the longest text or number. The parser keeps copies of the token it is at, so a header
// that is one huge token would take several times its size.
size_t longest_token(std::string_view json) {
  size_t longest = 0, run = 0;
  bool in_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const bool quote = json[i] == '"';
    const bool inside =
        in_text ? !quote
                : std::string_view(" \t\r\n,:[]{}\"").find(json[i]) == std::string_view::npos;
    if (in_text && json[i] == '\\') ++i;
    if (quote) in_text = !in_text;
    run = inside ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return longest;
}

class HeaderReader {
 public:
  using number_integer_t = int64_t;
  using number_unsigned_t = uint64_t;
  using number_float_t = double;
  using string_t = std::string;
  using binary_t = nlohmann::json::binary_t;

  explicit HeaderReader(const std::string& file) : file_(file) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool null() {
    if (at_ == At::root && key_ == "__metadata__") return true;  // Python: as if absent
    return other("null");
  }
  bool boolean(bool) { return other("true or false"); }
  bool number_integer(int64_t) { return other("a negative number"); }
  bool number_float(double, const std::string& digits) { return other(digits); }
  bool binary(binary_t&) { return false; }  // does not occur in text

  bool number_unsigned(uint64_t number) {
    switch (at_) {
      case At::shape:
        if (record().shape.size() >= max_axes) refuse("at most 64 axes", "more");
        record().shape.push_back(number);
        return true;
      case At::offsets:
        if (offsets_ >= 2) refuse("two data_offsets", "more");
        (offsets_ == 0 ? record().begin : record().end) = number;
        ++offsets_;
        return true;
      default:
        return other("a number");
    }
  }

  bool string(std::string& text) {
    if (at_ == At::metadata) {
      if (!header_.metadata.emplace(key_, std::move(text)).second) {
        fail(ErrorKind::checkpoint, "{}: __metadata__: expected every key once, got {} twice.",
             file_, excerpt(key_));
      }
      return true;
    }
    if (at_ == At::tensor && key_ == "dtype") {
      const std::optional<DType> dtype = safetensors_dtype(text);
      if (!dtype) {
        refuse("a dtype of F64, F32, F16, BF16, I64, I32, U8, BOOL", excerpt(text),
               " Convert the file to one of these in Python.");
      }
      record().dtype = *dtype;
      return true;
    }
    return other(excerpt(text));
  }

  bool key(std::string& name) {
    key_ = std::move(name);
    if (at_ == At::root) {
      if (++names_ > max_names) refuse_file("at most 65536 names, got more");
      if (key_ != "__metadata__") {
        header_.records.emplace_back().name = key_;
      } else if (std::exchange(seen_metadata_, true)) {
        refuse_file("__metadata__ once, got it twice");
      }
    } else if (at_ == At::metadata) {
      if (++names_ > max_names) refuse_file("at most 65536 names, got more");
    } else if (at_ == At::tensor) {
      if (const auto field = field_of(key_); field && std::exchange(seen_[*field], true)) {
        refuse(fmt::format("{} once", key_), "it twice");
      }
    }
    return true;
  }

  bool start_object(size_t) {
    enter();
    if (at_ == At::start) {
      at_ = At::root;
    } else if (at_ == At::root) {
      at_ = key_ == "__metadata__" ? At::metadata : At::tensor;
      seen_ = {};
      offsets_ = 0;
    } else {
      skip_or_refuse("an object");
    }
    return true;
  }

  bool end_object() {
    --depth_;
    if (at_ == At::tensor) {
      for (size_t i = 0; i < fields.size(); ++i) {
        if (!seen_[i]) refuse(fields[i], "none");
      }
    }
    if (at_ == At::skipped) return leave_skipped();
    at_ = at_ == At::root ? At::start : At::root;
    return true;
  }

  bool start_array(size_t) {
    enter();
    if (at_ == At::tensor && key_ == "shape") {
      at_ = At::shape;
    } else if (at_ == At::tensor && key_ == "data_offsets") {
      at_ = At::offsets;
    } else {
      skip_or_refuse("an array");
    }
    return true;
  }

  bool end_array() {
    --depth_;
    if (at_ == At::skipped) return leave_skipped();
    if (at_ == At::offsets && offsets_ != 2) refuse("two data_offsets", fmt::to_string(offsets_));
    at_ = At::tensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
    fail(ErrorKind::checkpoint,
         "{}: header: expected valid JSON in UTF-8, got an error at byte {}.", file_, position);
  }

 private:
  enum class At { start, root, metadata, tensor, shape, offsets, skipped };
  static constexpr std::array<const char*, 3> fields = {"dtype", "shape", "data_offsets"};

  static std::optional<size_t> field_of(std::string_view key) {
    for (size_t i = 0; i < fields.size(); ++i) {
      if (key == fields[i]) return i;
    }
    return std::nullopt;
  }

  SafetensorsRecord& record() { return header_.records.back(); }

  void enter() {
    if (++depth_ > max_depth) refuse_file("at most 127 nested objects and arrays");
  }

  // A container where none is read: the value of an unknown field is skipped, others are errors.
  void skip_or_refuse(std::string_view got) {
    if (at_ == At::skipped) {
      ++skipped_;
      return;
    }
    other(got);
    at_ = At::skipped;
    skipped_ = 1;
  }

  bool leave_skipped() {
    if (--skipped_ == 0) at_ = At::tensor;
    return true;
  }

  // A value of a type that is not accepted here.
  bool other(std::string_view got) {
    switch (at_) {
      case At::skipped:
        return true;
      case At::tensor:
        if (!field_of(key_)) return true;
        refuse(key_ == "dtype" ? "dtype as text" : key_ + " as an array of integers", got);
      case At::shape:
      case At::offsets:
        refuse(fmt::format("unsigned integers in {}", key_), got);
      case At::metadata:
        fail(ErrorKind::checkpoint, "{}: __metadata__: {}: expected text, got {}.", file_,
             excerpt(key_), got);
      case At::root:
        if (key_ != "__metadata__") refuse("an object with dtype, shape and data_offsets", got);
        fail(ErrorKind::checkpoint, "{}: __metadata__: expected an object, got {}.", file_, got);
      case At::start:
        break;
    }
    refuse_file(fmt::format("an object, got {}", got));
  }

  [[noreturn]] void refuse(std::string_view expected, std::string_view got,
                           std::string_view remedy = "") const {
    fail(ErrorKind::checkpoint, "{}: tensor {}: expected {}, got {}.{}", file_,
         excerpt(header_.records.back().name), expected, got, remedy);
  }

  [[noreturn]] void refuse_file(std::string_view expected) const {
    fail(ErrorKind::checkpoint, "{}: header: expected {}.", file_, expected);
  }

  const std::string& file_;
  SafetensorsHeader header_;
  At at_ = At::start;
  std::string key_;
  std::array<bool, 3> seen_{};
  bool seen_metadata_ = false;
  size_t names_ = 0;
  int offsets_ = 0;
  int depth_ = 0;
  int skipped_ = 0;
};

}  // namespace

SafetensorsHeader read_safetensors_header(std::string_view json, const std::string& file) {
  // nlohmann-json takes a NUL for the end of the text and would ignore what follows it.
  if (json.find('\0') != std::string_view::npos) {
    fail(ErrorKind::checkpoint,
         "{}: header: expected valid JSON in UTF-8, got an error at byte {}.", file,
         json.find('\0') + 1);
  }
  if (longest_token(json) > max_token_bytes) {
    fail(ErrorKind::checkpoint, "{}: header: expected texts of at most {}, got {}.", file,
         human_bytes(max_token_bytes), human_bytes(longest_token(json)));
  }
  HeaderReader reader(file);
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  return reader.take();
}

}  // namespace whisker
