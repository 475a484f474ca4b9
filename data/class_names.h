// Names of classes: looked up by their bytes first, and what makes two of them hard to tell apart.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// The number of the class of this name: of the same bytes or, where exactly one class has it, of
/// the same normal form C. Nothing when there is none. Throws checkpoint when two classes have the
/// name, as in weights files made elsewhere (see classes_of), and data when two have its normal
/// form.
std::optional<int64_t> class_number(std::span<const std::string> classes, std::string_view name);

/// Those of `names` that are no class of the same bytes.
std::vector<std::string> names_not_in(std::span<const std::string> names,
                                      std::span<const std::string> classes);

/// Counts names that are matched with a class of other bytes.
class NormalisedNames {
 public:
  /// Counts `name` if it is spelt otherwise than `known`.
  void add(std::string_view name, std::string_view known);
  /// "2 names of classes match after Unicode's normal form C, such as 'café'"; "" for none. `one`
  /// and `several` are "name of a class" and "names of classes".
  std::string note(std::string_view one, std::string_view several) const;

 private:
  int64_t count_ = 0;
  std::string first_;
};

/// A sentence for each pair of classes that differ little (in case, blanks, ...), and for names
/// that join others or mean a missing value; at most eight, then how many more.
std::vector<std::string> similar_classes(std::span<const std::string> classes);

}  // namespace whisker
