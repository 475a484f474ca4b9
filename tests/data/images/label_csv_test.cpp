// Label CSVs as other programs write them, and paths in another spelling than on disk.
#include "data/images/label_csv.h"

#include "core/error.h"
#include "data/images/split_list.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class LabelCsv : public testing::Test {
 protected:
  LabelCsv() {
    for (const char* name : {"a/1.jpg", "b/2.jpg"}) folder_.write(name);
  }
  ImageFolder opened(const std::string& csv) {
    return open_image_folder(folder_.path(), {.csv = folder_.write("l.csv", csv)});
  }
  static std::vector<std::string> paths(const ImageFolder& folder) {
    std::vector<std::string> names;
    for (const ImageFile& file : folder.files) names.push_back(file.path);
    return names;
  }

  TemporaryFolder folder_;
};

TEST_F(LabelCsv, OfOtherSystems) {
  const std::string plain = "path,label\na/1.jpg,x\nb/2.jpg,y\n";
  std::string cr = plain, semicolons = plain, backslashes = plain, wide = "\xff\xfe";
  std::ranges::replace(cr, '\n', '\r');
  std::ranges::replace(semicolons, ',', ';');
  std::ranges::replace(backslashes, '/', '\\');
  for (const char c : plain) wide += {c, '\0'};
  for (const std::string& csv : {plain, cr, wide}) {
    const ImageFolder folder = opened(csv);
    EXPECT_THAT(paths(folder), ElementsAre("a/1.jpg", "b/2.jpg"));
    EXPECT_THAT(folder.notes, IsEmpty());
  }
  EXPECT_THAT(opened(semicolons).notes, ElementsAre(HasSubstr("fields end at semicolons")));
  const ImageFolder found = opened(backslashes);
  EXPECT_THAT(paths(found), ElementsAre("a/1.jpg", "b/2.jpg"));
  EXPECT_THAT(found.notes,
              ElementsAre(HasSubstr("2 paths are found with / for their backslashes")));
  folder_.write("a\\1.jpg");
  EXPECT_THAT(opened(backslashes).notes,
              ElementsAre(HasSubstr("1 path is found with / for its backslashes")))
      << "bytes first";
}

TEST_F(LabelCsv, AFileUnderTwoSpellingsIsListedOnce) {
  std::filesystem::create_directory(folder_ / "x");
  const std::string whole = (folder_ / "a/1.jpg").string();
  for (const std::string& path : {std::string("a/./1.jpg"), std::string("a//1.jpg"),
                                  std::string("x/../a/1.jpg"), std::string("./a/1.jpg"), whole}) {
    const std::string rows = "path,label\na/1.jpg,x\nb/2.jpg,y\n" + path;
    for (const std::string label : {"x", "y"}) {
      EXPECT_THAT(message_of(ErrorKind::data, [&] { opened(rows + "," + label + "\n"); }),
                  testing::AllOf(
                      HasSubstr("l.csv:4: '" + path + "' is listed in line 2 already as 'a/1.jpg'"),
                      HasSubstr(label == "x" ? "'. Keep one" : ", with the label 'x'. Keep one")));
    }
  }
  // A run of before may have such a list.
  const auto csv = folder_.write("l.csv", "path,label\na/1.jpg,x\nb/2.jpg,y\na/./1.jpg,y\n");
  for (const int rules : {1, 2}) {
    EXPECT_EQ(open_image_folder(folder_.path(), {.csv = csv, .rules = rules}).size(), 3);
  }
  const auto cr = folder_.write("l.csv", "path,label\r\na/1.jpg,x\r\r\nb/2.jpg,y\r\r\n");
  const ImageFolder read = open_image_folder(folder_.path(), {.csv = cr, .rules = 2});
  EXPECT_THAT(read.classes, ElementsAre("x\r", "y\r"));
  EXPECT_THAT(read.notes,
              testing::Contains(HasSubstr("data.rules 2 reads what newer ones refuse: ")));
}

TEST_F(LabelCsv, APathWithNulIsRefused) {
  using namespace std::string_literals;
  EXPECT_THAT(
      message_of(ErrorKind::data, [&] { opened("path,label\nb/2.jpg,y\na/1.jpg\0.png,x\n"s); }),
      testing::AllOf(HasSubstr("l.csv:3: "), HasSubstr("'a/1.jpg\\x00.png'"), HasSubstr("NUL byte"),
                     HasSubstr("without it")));
  const auto split = folder_.write("s.csv", "path,label,split,bytes\na/1.jpg\0x,y,train,1\n"s);
  EXPECT_THAT(message_of(ErrorKind::checkpoint, [&] { read_split(split); }),
              HasSubstr("s.csv:2: "));
}

TEST_F(LabelCsv, NamesOfColumnsInAnotherCase) {
  const ImageFolder found = opened("Path,LABEL\na/1.jpg,x\nb/2.jpg,y\n");
  EXPECT_EQ(found.size(), 2);
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("column 1 ('Path') is read as path"),
                                       HasSubstr("column 2 ('LABEL') is read as label")));
  for (const char* header : {"path,label,label", "path,Label,LABEL"}) {
    EXPECT_THAT(message_of(ErrorKind::data,
                           [&] { opened(header + std::string("\na/1.jpg,x,y\nb/2.jpg,y,x\n")); }),
                HasSubstr("l.csv:1: columns 2 and 3 are called 'label'"));
  }
}

TEST_F(LabelCsv, AColumnOfSplitsIsSaid) {
  EXPECT_THAT(opened("path,label,split\na/1.jpg,x,train\nb/2.jpg,y,val\n").notes,
              ElementsAre(HasSubstr("l.csv: the column split is not used: all rows are read")));
}

TEST_F(LabelCsv, ColumnsThatAreNotUsedAreSaid) {
  const ImageFolder found =
      opened("path,predicted,label,loss\na/1.jpg,y,x,0.5\nb/2.jpg,y,y,1e-05\n");
  EXPECT_EQ(found.classes, (std::vector<std::string>{"x", "y"}));
  EXPECT_THAT(found.notes,
              ElementsAre(HasSubstr("l.csv: the labels are those of column 3 ('label'); not used: "
                                    "'predicted', 'loss'")));
}

TEST_F(LabelCsv, FilesThatAreNotListedAreCounted) {
  EXPECT_EQ(opened("path,label\na/1.jpg,x\nb/2.jpg,y\n").use(), "");
  for (const char* name : {"b/3.jpg", "c/4.jpg", ".hidden"}) folder_.write(name);
  EXPECT_EQ(opened("path,label\n./a/1.jpg,x\nb/2.jpg,y\n").use(),
            "2 of 5 files used: 2 not listed in l.csv, 1 hidden");
  const std::string whole = (folder_ / "a/1.jpg").string();
  EXPECT_EQ(opened("path,label\n" + whole + ",x\nb/2.jpg,y\nb/3.jpg,y\nc/4.jpg,x\n").use(),
            "4 of 5 files used: 1 hidden");
}

TEST_F(LabelCsv, PathsInAnotherNormalForm) {
  folder_.write("fu\u0308r/u\u0308.jpg");
  const ImageFolder found = opened("path,label\nf\u00fcr/\u00fc.jpg,x\nb/2.jpg,y\n");
  EXPECT_THAT(paths(found), ElementsAre("b/2.jpg", "fu\u0308r/u\u0308.jpg"));
  EXPECT_THAT(found.notes, ElementsAre(HasSubstr("1 path matches after Unicode's normal form C")));
  EXPECT_THAT(
      message_of(ErrorKind::data,
                 [&] { opened("path,label\nf\u00fcr/\u00fc.jpg,x\nfu\u0308r/u\u0308.jpg,y\n"); }),
      HasSubstr("is listed in line 2 already"));
  folder_.write("\u1e69.jpg");
  folder_.write("s\u0323\u0307.jpg");
  EXPECT_THAT(
      message_of(ErrorKind::data, [&] { opened("path,label\ns\u0307\u0323.jpg,x\nb/2.jpg,y\n"); }),
      HasSubstr("several entries"));
}

TEST_F(LabelCsv, ASplitWithFormulasReadsBack) {
  folder_.write("=a/@1.jpg");
  const ImageFolder folder = opened("path,label\n=a/@1.jpg,-x\nb/2.jpg,y\n");
  const std::string csv = split_csv(folder, ImageFolder());
  EXPECT_THAT(csv, HasSubstr("'=a/@1.jpg,'-x,train"));
  const std::vector<SplitEntry> split = read_split(folder_.write("split.csv", csv));
  EXPECT_EQ(split[0].path, "=a/@1.jpg");
  EXPECT_EQ(split[0].label, "-x");
  // It is a label CSV as well.
  EXPECT_THAT(paths(opened(csv)), ElementsAre("=a/@1.jpg", "b/2.jpg"));
  EXPECT_THAT(opened(csv).classes, ElementsAre("-x", "y"));
}

TEST_F(LabelCsv, ClassesInAnotherNormalForm) {
  for (const char* name : {"t/cafe\u0301/1.jpg", "t/z/1.jpg", "v/caf\u00e9/1.jpg", "v/z/2.jpg"}) {
    folder_.write(name);
  }
  const ImageFolder train = open_image_folder(folder_ / "t");
  ImageFolder val = open_image_folder(folder_ / "v");
  adopt_class_names(train, val);
  EXPECT_NO_THROW(check_same_classes(train, val));
  EXPECT_THAT(val.notes, ElementsAre(HasSubstr("1 name of a class matches")));
  EXPECT_EQ(val.classes[static_cast<size_t>(val.files[0].label)], "cafe\u0301");
  const ImageFolder known = open_image_folder(folder_ / "v", {.classes = train.classes});
  EXPECT_EQ(known.labels(), val.labels());
  EXPECT_EQ(known.notes, val.notes);
}

}  // namespace
}  // namespace whisker::test
