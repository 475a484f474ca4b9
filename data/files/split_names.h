// Names of splits, and of parts of a data set.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace whisker {

enum class Split : uint8_t { none, train, val, test };

// Note [Splits or classes]
// Folders of splits and folders of classes look alike. Their names decide:
// - A split's word among filler words is a split: test, train_images, X_val, traindata2. Beside
//   class folders it is refused, but for a training split's name beside two classes or more where
//   it holds no folders: `train` beside `plane` and `car` is a class.
// - Names that may be either are refused: fold1, fold2; two names that differ in the split's word
//   alone (train_cats, test_cats); and folders that all hold the same two subfolders or more,
//   where one has a split's word or two are numbered parts or years (part1/cat, 2019/cat).
// - All others are classes, and folders in them belong to the class (cat/2019, cat/2020) unless
//   they are splits.

/// The split that a folder's name says: a split's word (train, training, val, test, ...) among
/// filler words (data, set, images, x, v, ...), in lower case, without digits and punctuation.
Split split_of_name(std::string_view name);

/// A split's word in a name, and the other words but fillers: " cats" of train_cats.
struct SplitAndRest {
  Split split = Split::none;
  std::string rest = {};
};
SplitAndRest split_and_rest(std::string_view name);

/// Filler words and a number, or a year: part1, set_2, 2019.
bool is_numbered_part(std::string_view name);
/// fold1, split_2, cv3.
bool is_fold(std::string_view name);

}  // namespace whisker
