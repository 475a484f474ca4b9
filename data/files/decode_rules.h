// What decides how a file is read besides the file; of images a part of a model's preprocessing.
#pragma once

namespace whisker {

/// Rules by which files are listed, read and decoded. Runs and weights keep those that they were
/// made with: data.rules of a run, "rules" of weights' preprocess; absent: 1. See Note [Data
/// rules].
inline constexpr int newest_data_rules = 3;

// Note [Data rules]
// 1. Of links and hard links to one file or folder the first is listed; folders that systems make
//    for themselves are ordinary ones; PBM, PGM and PPM are no images; every visible file is a
//    text; EXIF orientation only as a SHORT, in a block with one prefix. Of tables: of two columns
//    of one name the first; a first row of rows or a series without a number is a header, any other
//    is none; NaN at a row's end is no padding; a CR is part of its field. A label CSV may list a
//    file under two spellings of its path.
// 2. Every path is a file of its own; @eaDir, __MACOSX and the like are skipped; PBM, PGM and PPM
//    are images; texts are .txt files; orientation as Pillow's exif_transpose finds it. NaN at a
//    row's end is padding; a word such as 'label' in the label's column makes a header of rows.
// 3. Every path is a folder of its own, too; heat maps of classify --cam are skipped. Tables as
//    data/sequences/table_header.h, row_file.h, time_order.h and scaling.h say.
// Readings that are as likely as another, such as folders that may be splits or parts, are refused;
// a run of older rules has read them, and says it: see check_reading().

struct DecodeRules {
  int version = newest_data_rules;
  int png_bits = 16;  ///< of the samples of files of 16 bits: 12 for sensors, 8 to 16
  bool operator==(const DecodeRules&) const = default;
};

}  // namespace whisker
