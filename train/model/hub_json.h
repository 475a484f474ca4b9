// One of the JSON files of a folder as Hugging Face hands it out. What it lacks is what the library
// that wrote it assumes, and is told.
#pragma once

#include "core/io/json.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

class HubJson {
 public:
  /// Reads `path`; a file that is not there lacks everything. Throws checkpoint for one that is not
  /// an object. `library` is whose defaults what() assumes, for messages.
  HubJson(const std::filesystem::path& path, std::string library);
  /// `inner`, an object inside of `outer`, whose library and file it has.
  HubJson(const HubJson& outer, const JsonValue& inner);

  const std::string& name() const { return name_; }  ///< of the file
  bool exists() const { return exists_; }

  /// nullptr for a key that is not there, or null.
  const JsonValue* find(std::string_view key) const;
  /// `otherwise` for a key that is not there, which is told. Throw checkpoint for other types and
  /// numbers out of range.
  int64_t integer(const char* key, int64_t low, int64_t high, int64_t otherwise);
  double number(const char* key, double low, double high, double otherwise);
  bool flag(const char* key, bool otherwise);
  std::string text(const char* key, const char* otherwise);
  std::vector<int64_t> integers(const char* key, std::vector<int64_t> otherwise);
  /// One number for all of three channels, or one each.
  std::vector<double> channels(const char* key, std::vector<double> otherwise);
  /// That `key` is not there, and what is taken instead.
  void assume(const char* key, const std::string& value);

  /// Throws checkpoint unless `key` is what Whisker computes.
  void require(const char* key, bool fine, std::string_view expected) const;
  [[noreturn]] void refuse(const char* key, std::string_view expected, std::string_view got) const;

  /// The line about what was assumed, with the option that decides otherwise; "" where nothing was.
  std::string note(std::string_view option) const;

 private:
  std::string name_, library_;
  bool exists_ = false;
  JsonValue json_;
  std::vector<std::string> assumed_;
};

/// A value as a message shows it: a text in quotes, a list, true.
std::string shown(const JsonValue& value);

}  // namespace whisker
