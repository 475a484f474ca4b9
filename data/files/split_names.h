// Names of splits, and of parts of a data set.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace whisker {

enum class Split : uint8_t { none, train, val, test };

// Note [Splits or classes]
// Folders of splits and folders of classes look alike. Their names decide, and what they hold:
// - A split's word among filler words is a split: test, train_images, X_val, traindata2. Beside
//   class folders it is refused, but for a training split's name beside two classes or more where
//   it holds no folders: `train` beside `plane` and `car` is a class. A folder around the splits
//   (data/train, data/val) is refused and the one to name is said.
// - Names that may be either are refused: fold1, fold2; two names that differ in the split's word
//   alone (train_cats, test_cats).
// - Folders that all hold the same two subfolders or more are refused, whatever their names:
//   source/cat, target/cat and cat/left, dog/left are built alike. Where the subfolders' names are
//   numbers (cat/2019, dog/2019) the outer folders are the classes, and it is said.
// - All others are classes, and folders in them belong to the class unless they are splits.

/// The split that a folder's name says: a split's word (train, training, val, test, ...) among
/// filler words (data, set, images, x, v, ...), in lower case, without digits and punctuation.
Split split_of_name(std::string_view name);

/// A split's word in a name, and the others.
struct SplitAndRest {
  Split split = Split::none;
  std::string rest = {};     ///< in lower case and the singular: " cat" of Cats_train2
  std::string label = {};    ///< what stands before the split's word, or behind it: "Cats"
  std::string pattern = {};  ///< "{label}_train2"
};
SplitAndRest split_and_rest(std::string_view name);

/// fold1, split_2, cv3.
bool is_fold(std::string_view name);

}  // namespace whisker
