// Paths that a list gives, as they are on disk: macOS and archives made there spell é with two code
// points (normal form D), most else with one.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

class PathFinder {
 public:
  explicit PathFinder(std::filesystem::path root) : root_(std::move(root)) {}

  /// `path`, below the root, with every folder and the file as they are spelt there: the same bytes
  /// or, where exactly one entry has it, the same normal form C. Nothing where there is none.
  /// Throws data where several have it.
  std::optional<std::string> find(const std::string& path);

 private:
  /// The entries of a folder below the root, by normal form.
  using Entries = std::multimap<std::string, std::string>;
  const Entries& entries(const std::string& folder);

  std::filesystem::path root_;
  std::map<std::string, Entries> known_;
};

}  // namespace whisker
