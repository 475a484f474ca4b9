#include "data/images/image_folder.h"

#include "core/error.h"
#include "core/io/file.h"
#include "data/codec/encode_jpeg.h"
#include "data/codec/unsupported_formats.h"
#include "data/images/shared_images.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace whisker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Names = std::vector<std::string>;

std::string error_of(const std::filesystem::path& root, const ImageFolderOptions& options = {}) {
  return test::message_of(ErrorKind::data, [&] { open_image_folder(root, options); });
}

Names paths(const ImageFolder& folder) {
  Names names;
  for (const ImageFile& file : folder.files) names.push_back(file.path);
  return names;
}

TEST(ImageFolder, TakesLabelsFromFolders) {
  TemporaryFolder folder;
  for (const char* name :
       {"dog/b.jpg", "dog/deep/er/a.PNG", "cat/1.jpeg", "cat/10.bmp", "Zebra/z.jpg"}) {
    folder.write(name, "1234");
  }
  folder.write("cat/.DS_Store");
  folder.write("cat/._1.jpg");
  folder.write(".ipynb_checkpoints/x.jpg");
  folder.write("dog/.hidden/x.jpg");
  folder.write("cat/Thumbs.db");
  folder.write("README.txt");
  folder.write("cat/no_extension", "\xff\xd8\xff\xe0 and so on");
  const ImageFolder found = open_image_folder(folder.path());
  EXPECT_EQ(found.classes, (Names{"Zebra", "cat", "dog"}));
  EXPECT_EQ(paths(found), (Names{"Zebra/z.jpg", "cat/1.jpeg", "cat/10.bmp", "cat/no_extension",
                                 "dog/b.jpg", "dog/deep/er/a.PNG"}));
  EXPECT_EQ(found.labels(), (std::vector<int64_t>{0, 1, 1, 1, 2, 2}));
  EXPECT_EQ(found.counts(), (std::vector<int64_t>{1, 3, 2}));
  EXPECT_EQ(found.files[0].bytes, 4u);
  EXPECT_EQ(found.use(), "6 of 12 files used: 4 hidden, 2 not an image");
}

TEST(ImageFolder, FoldersOfRunsAreNoData) {
  TemporaryFolder folder;
  for (const char* name : {"cat/1.jpg", "dog/1.jpg", "runs/a/maps/1.jpg", "dog/deep/b/1.jpg"}) {
    folder.write(name);
  }
  for (const char* run : {"runs/a", "runs/a-2", "dog/deep/b"}) {
    folder.write(std::string(run) + "/last/state.json",
                 R"({"version":1,"model":{"name":"model-3.safetensors"}})");
  }
  folder.write("runs/cache/0123456789abcdef");
  const ImageFolder found = open_image_folder(folder.path());
  EXPECT_EQ(found.classes, (Names{"cat", "dog"}));
  EXPECT_EQ(paths(found), (Names{"cat/1.jpg", "dog/1.jpg"}));
  int runs = 0;
  for (const SkippedFile& file : found.skipped) runs += file.reason == "run folder";
  EXPECT_EQ(runs, 3);
  folder.write("bird/last/1.jpg");  // a folder of this name alone is none
  EXPECT_EQ(open_image_folder(folder.path()).classes, (Names{"bird", "cat", "dog"}));
}

// The first bytes tell, and the name only where they tell nothing.
TEST(ImageFolder, LeavesOutImagesOfOtherFormatsWhateverTheirNames) {
  TemporaryFolder folder;
  folder.write("a/gif.jpg", "GIF89a......");
  folder.write("a/heic.png", std::string_view("\0\0\0\x18"
                                              "ftypheic....",
                                              16));
  folder.write("a/jpeg.gif", "\xff\xd8\xff\xe0 and so on");
  folder.write("a/webp.jpg", "RIFF....WEBPVP8 ");
  folder.write("b/cut.webp", "RIFF");
  folder.write("b/text.gif", "no image");
  folder.write("b/tiff.gif", std::string_view("II*\0....", 8));
  const ImageFolder found = open_image_folder(folder.path());
  EXPECT_EQ(paths(found), (Names{"a/jpeg.gif", "a/webp.jpg", "b/cut.webp"}));
  EXPECT_EQ(unsupported_formats(found.skipped, true), "1 GIF, 1 HEIC, 1 TIFF and 1 other file");
  EXPECT_EQ(count_unsupported_formats(found.skipped), 3);
  const auto csv =
      folder.write("labels.csv", "path,label\na/gif.jpg,x\na/jpeg.gif,x\nb/cut.webp,y\n");
  const ImageFolder listed = open_image_folder(folder.path(), {.csv = csv});
  EXPECT_EQ(paths(listed), (Names{"a/jpeg.gif", "b/cut.webp"}));
  EXPECT_EQ(unsupported_formats(listed.skipped), "1 GIF");
}

TEST(ImageFolder, HeatMapsAreNoData) {
  Image image;
  image.reshape(1, 1);
  const std::vector<uint8_t> plain = encode_jpeg(image, {.comment = ""}),
                             map = encode_jpeg(image, {.comment = std::string(heat_map_mark)});
  TemporaryFolder folder;
  for (const char* name : {"cat/1.jpg", "dog/1.jpg", "dog/2.jpg"}) {
    folder.write(name, std::string(plain.begin(), plain.end()));
  }
  for (const char* name : {"cat/1_cat_0.9.jpg", "maps/dog/1_dog_0.8.jpg"}) {
    folder.write(name, std::string(map.begin(), map.end()));
  }
  const ImageFolder found = open_image_folder(folder.path());
  EXPECT_EQ(found.classes, (Names{"cat", "dog"}));
  EXPECT_EQ(found.use(), "3 of 5 files used: 2 written by classify --cam");
  for (const int rules : {1, 2}) {
    EXPECT_EQ(open_image_folder(folder.path(), {.rules = rules}).classes,
              (Names{"cat", "dog", "maps"}));
  }
}

// As torchvision's names of ImageNet's classes: two cranes.
TEST(ImageFolder, ClassesOfOneNameKeepTheNumbersOfTheOthers) {
  TemporaryFolder folder;
  folder.write("ant/1.jpg");
  folder.write("dog/1.jpg");
  const ImageFolderOptions options{.classes = {"ant", "crane", "cat", "crane", "dog"}};
  EXPECT_EQ(open_image_folder(folder.path(), options).labels(), (std::vector<int64_t>{0, 4}));
  folder.write("crane/1.jpg");
  EXPECT_THAT(
      test::message_of(ErrorKind::checkpoint, [&] { open_image_folder(folder.path(), options); }),
      HasSubstr("class 'crane': two classes of the weights file have this name"));
}

TEST(ImageFolder, KeepsOddNames) {
  TemporaryFolder folder;
  const Names names = {" ",        "a b",       "new\nline",  "quote\"'`",
                       "-rf",      "caf\u00e9", "cafe\u0301", "\xf0\x9f\x90\xb1",
                       "\xff\xfe", "$(reboot)", "100%{}",     std::string(251, 'x')};
  for (const std::string& name : names) {
    folder.write("a/" + name + ".jpg");
    if (name != "\xff\xfe") folder.write(name.substr(0, 200) + "_class/1.jpg");
  }
  const ImageFolder found = open_image_folder(folder.path());
  EXPECT_EQ(found.classes.size(), names.size());
  for (const std::string& name : names) {
    EXPECT_THAT(paths(found), testing::Contains("a/" + name + ".jpg"));
  }
  for (int64_t i = 0; i < found.size(); ++i) EXPECT_TRUE(std::filesystem::exists(found.file(i)));
}

// A path is a file: whoever fills a rare class with links wants them. Loops end.
TEST(ImageFolder, LinksAreFilesOfTheirOwn) {
  TemporaryFolder folder;
  folder.write("cat/1.jpg");
  folder.write("dog/1.jpg");
  std::filesystem::create_directory_symlink("..", folder / "cat/loop");
  std::filesystem::create_directory_symlink(folder / "dog", folder / "cat/a_link_to_dogs");
  std::filesystem::create_symlink("1.jpg", folder / "cat/0.jpg");
  std::filesystem::create_symlink("nowhere", folder / "cat/2.jpg");
  std::filesystem::create_hard_link(folder / "dog/1.jpg", folder / "dog/2.jpg");
  ASSERT_EQ(::mkfifo((folder / "cat/3.jpg").c_str(), 0600), 0);
  const ImageFolder found = open_image_folder(folder.path());
  EXPECT_EQ(paths(found), (Names{"cat/0.jpg", "cat/1.jpg", "cat/a_link_to_dogs/1.jpg",
                                 "cat/a_link_to_dogs/2.jpg", "dog/1.jpg", "dog/2.jpg"}));
  EXPECT_EQ(found.use(),
            "6 of 9 files used (3 are links): 1 broken link, 1 link to a folder that it lies in, 1 "
            "neither file nor folder");
  // As runs before data.rules list them.
  EXPECT_EQ(paths(open_image_folder(folder.path(), {.rules = 1})),
            (Names{"cat/1.jpg", "dog/1.jpg"}));
}

TEST(ImageFolder, LinksToOneFolderAreFoldersOfTheirOwn) {
  TemporaryFolder folder;
  folder.write("store/1.jpg");
  folder.write("root/real/1.jpg");
  std::filesystem::create_directory_symlink("../store", folder / "root/cat");
  std::filesystem::create_directory_symlink("../store", folder / "root/kitty");
  std::filesystem::create_directory_symlink("../../store", folder / "root/real/more");
  EXPECT_EQ(paths(open_image_folder(folder / "root")),
            (Names{"cat/1.jpg", "kitty/1.jpg", "real/1.jpg", "real/more/1.jpg"}));
  for (const int rules : {1, 2}) {
    EXPECT_EQ(open_image_folder(folder / "root", {.rules = rules}).classes, (Names{"cat", "real"}));
  }
}

// Many folders with links to each other have a number of paths that no walk comes to the end of.
TEST(ImageFolder, LoopsOfLinksEnd) {
  TemporaryFolder folder;
  constexpr int count = 12;
  for (int i = 0; i < count; ++i) folder.write(fmt::format("root/{}/1.jpg", i));
  for (int i = 0; i < count; ++i) {
    for (const std::string& target :
         {std::string(), fmt::format("{}", (i + 1) % count), fmt::format("{}", (i + 5) % count)}) {
      std::filesystem::create_directory_symlink("../" + target,
                                                folder / fmt::format("root/{}/to_{}", i, target));
    }
  }
  const ImageFolder found = open_image_folder(folder / "root");
  EXPECT_EQ(found.classes.size(), static_cast<size_t>(count));
  EXPECT_GE(found.size(), count + 2 * count);  // each file, and each by two links
  EXPECT_LE(found.size(), count + 2 * count * count);
}

TEST(ImageFolder, WhatSystemsLeaveBehindIsNoClass) {
  TemporaryFolder folder;
  for (const char* name : {"cat/1.jpg", "dog/1.jpg", "@eaDir/cat/1.jpg", "dog/@eaDir/1.jpg",
                           "__MACOSX/cat/1.jpg", "desktop.ini", "cat/Thumbs.db"}) {
    folder.write(name);
  }
  const ImageFolder found = open_image_folder(folder.path());
  EXPECT_EQ(paths(found), (Names{"cat/1.jpg", "dog/1.jpg"}));
  EXPECT_EQ(found.use(),
            "2 of 7 files used: 2 @eaDir (made by the system), 2 not an image, 1 __MACOSX (made by "
            "the system)");
  EXPECT_EQ(open_image_folder(folder.path(), {.rules = 1}).classes.size(), 4u);
  std::filesystem::remove_all(folder / "@eaDir");
  std::filesystem::remove_all(folder / "__MACOSX");
  std::filesystem::remove_all(folder / "dog/@eaDir");
  std::filesystem::remove(folder / "desktop.ini");
  std::filesystem::remove(folder / "cat/Thumbs.db");
  EXPECT_EQ(open_image_folder(folder.path()).use(), "");
}

// By their first bytes, and by their names where those tell nothing.
TEST(ImageFolder, TakesPbmPgmAndPpm) {
  TemporaryFolder folder;
  folder.write("a/1.ppm", "P6 1 1 255\n123");
  folder.write("a/2", "P2\n# text\n1 1\n9\n3\n");
  folder.write("b/cut.pgm", "");
  folder.write("b/3.txt", "P3 is no image");
  EXPECT_EQ(paths(open_image_folder(folder.path())), (Names{"a/1.ppm", "a/2", "b/cut.pgm"}));
  EXPECT_THAT(
      test::message_of(ErrorKind::data, [&] { open_image_folder(folder.path(), {.rules = 1}); }),
      HasSubstr("found 2 folders and 4 other files"));
}

TEST(ImageFolder, FollowsLinksToClassesElsewhere) {
  TemporaryFolder folder;
  folder.write("store/x/1.jpg");
  folder.write("store/y/1.jpg");
  std::filesystem::create_directory(folder / "root");
  std::filesystem::create_directory_symlink("../store/x", folder / "root/cat");
  std::filesystem::create_directory_symlink("../store/y", folder / "root/dog");
  EXPECT_EQ(paths(open_image_folder(folder / "root")), (Names{"cat/1.jpg", "dog/1.jpg"}));
}

TEST(ImageFolder, TakesLabelsFromNames) {
  TemporaryFolder folder;
  for (const char* name :
       {"train/cat.0.jpg", "train/dog.0.jpg", "train/cat.1.jpg", "train/x.jpg"}) {
    folder.write(name);
  }
  const ImageFolder found = open_image_folder(folder.path(), {.label_pattern = "{label}.#.jpg"});
  EXPECT_EQ(found.classes, (Names{"cat", "dog"}));
  EXPECT_EQ(found.labels(), (std::vector<int64_t>{0, 0, 1}));
  ASSERT_EQ(found.skipped.size(), 1u);
  EXPECT_EQ(found.skipped[0].path, "train/x.jpg");
  EXPECT_THAT(error_of(folder.path(), {.label_pattern = "{label}-#.png"}),
              AllOf(HasSubstr("'{label}-#.png'"), HasSubstr("train/x.jpg")));
}

TEST(ImageFolder, SaysThatAFolderLiesInAClass) {
  TemporaryFolder folder;
  for (const char* name :
       {"cat/1.jpg", "cat/dog/1.jpg", "cat/dog/2.jpg", "bird/a/1.jpg", "bird/b/2.jpg"}) {
    folder.write(name);
  }
  const ImageFolder found = open_image_folder(folder.path());
  EXPECT_EQ(found.classes, (Names{"bird", "cat"}));
  EXPECT_THAT(
      found.notes,
      ElementsAre("2 images in folders beside a class's own images, such as cat/dog, are of "
                  "that class"));
}

TEST(ImageFolder, SaysThatALabelMayBeLonger) {
  TemporaryFolder folder;
  for (const char* name : {"pit_bull_1.jpg", "pit_bull_2.jpg", "pit_cat_1.jpg", "pit_cat_2.jpg",
                           "dog_1.jpg", "dog_2.jpg"}) {
    folder.write(name);
  }
  const ImageFolder found = open_image_folder(folder.path(), {.label_pattern = "{label}_*"});
  EXPECT_EQ(found.classes, (Names{"dog", "pit"}));
  EXPECT_THAT(found.notes,
              ElementsAre(HasSubstr("reads 2 classes, and may read 3: 'pit_bull_1.jpg' is read as "
                                    "'pit', not 'pit_bull'")));
  EXPECT_EQ(open_image_folder(folder.path(), {.label_pattern = "{label}_#.*"}).notes, Names{});
  TemporaryFolder as_many;
  for (const char* name : {"pit_bull_1.jpg", "pit_bull_2.jpg", "dog_1.jpg", "dog_2.jpg"}) {
    as_many.write(name);
  }
  EXPECT_THAT(open_image_folder(as_many.path(), {.label_pattern = "{label}_*"}).notes,
              ElementsAre(HasSubstr("reads 2 classes, and may read 2: 'pit_bull_1.jpg' is read")));
}

TEST(ImageFolder, TakesLabelsFromCsv) {
  TemporaryFolder folder;
  folder.write("images/b.jpg", "12");
  folder.write("images/a, b.jpg", "1");
  const auto csv =
      folder.write("labels.csv", "id,label,path\n7,dog,b.jpg\n8,\"big, cat\",\"a, b.jpg\"\n");
  const ImageFolder found = open_image_folder(folder / "images", {.csv = csv});
  EXPECT_EQ(found.classes, (Names{"big, cat", "dog"}));
  EXPECT_EQ(paths(found), (Names{"a, b.jpg", "b.jpg"}));
  EXPECT_EQ(found.labels(), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(found.files[1].bytes, 2u);
  const auto error_with = [&](const char* text) {
    return error_of(folder / "images", {.csv = folder.write("labels.csv", text)});
  };
  EXPECT_THAT(error_with("file,label\nb.jpg,dog\n"), HasSubstr("labels.csv:1: expected a header"));
  EXPECT_THAT(error_with("path,label\nc.jpg,dog\n"), HasSubstr("labels.csv:2: expected a file"));
  EXPECT_THAT(error_with("path,label\nb.jpg,dog\nb.jpg,cat\n"),
              HasSubstr("csv:3: 'b.jpg' is listed in line 2"));
  EXPECT_THAT(error_with("path,label\nb.jpg,\n"), HasSubstr("labels.csv:2: 'b.jpg' has no label"));
  EXPECT_THAT(error_with(""), HasSubstr("expected a header and rows"));
}

TEST(ImageFolder, SaysWhatIsWrongWithAFolder) {
  TemporaryFolder folder;
  EXPECT_THAT(error_of(folder / "none", {.name = "data.train"}),
              AllOf(HasSubstr("data.train: "), HasSubstr("does not exist")));
  EXPECT_THAT(error_of(folder.write("archive.zip")),
              AllOf(HasSubstr("is a file"), HasSubstr("Unpack an archive")));
  std::filesystem::create_directory(folder / "empty");
  EXPECT_THAT(error_of(folder / "empty"), HasSubstr("0 folders and 0 other files"));
  folder.write("text/cat/readme.txt");
  EXPECT_THAT(error_of(folder / "text"), HasSubstr("no JPEG, PNG, BMP, WebP, PBM, PGM or PPM"));
  folder.write("one/cat/1.jpg");
  EXPECT_THAT(error_of(folder / "one"), HasSubstr("expected at least two classes"));
  folder.write("wrapped/Pets/cat/1.jpg");
  folder.write("wrapped/Pets/dog/1.jpg");
  EXPECT_THAT(error_of(folder / "wrapped"),
              HasSubstr("If its folders 'cat', 'dog' are the classes, name " +
                        (folder / "wrapped/Pets").string()));
  folder.write("hollow/cat/1.jpg");
  folder.write("hollow/dog/1.txt");
  folder.write("hollow/cow/1.jpg");
  EXPECT_THAT(error_of(folder / "hollow"), HasSubstr("no images in the class folders 'dog'"));
  folder.write("flat/cat.1.jpg");
  folder.write("flat/dog.1.jpg");
  EXPECT_THAT(error_of(folder / "flat"),
              AllOf(HasSubstr("got 2 images outside"), HasSubstr("'{label}.*.jpg'"),
                    HasSubstr("If a table lists their labels, name it: data.csv=FILE.")));
  const std::pair<std::string, std::string> flat[] = {
      {"{}.{}.jpg", "{label}.#.*"}, {"{} ({}).jpg", "{label} (#).*"}, {"{}{}.jpg", "{label}#.*"}};
  for (const auto& [name, pattern] : flat) {
    for (const char* label : {"cat", "big_dog"}) {
      for (int i : {1, 22}) folder.write(pattern + "/" + fmt::format(fmt::runtime(name), label, i));
    }
    EXPECT_THAT(error_of(folder / pattern),
                HasSubstr(fmt::format("to '{}', which reads 'big_dog', 'cat'.", pattern)));
  }
  folder.write("both/train/cat/1.jpg");
  folder.write("both/val/cat/1.jpg");
  EXPECT_THAT(error_of(folder / "both"), HasSubstr("Name one of the splits instead"));
}

TEST(ImageFolder, UsesAGivenClassTable) {
  TemporaryFolder folder;
  folder.write("dog/1.jpg");
  std::filesystem::create_directory(folder / "cat");
  const ImageFolder found = open_image_folder(folder.path(), {.classes = {"ant", "cat", "dog"}});
  EXPECT_EQ(found.labels(), (std::vector<int64_t>{2}));
  EXPECT_THAT(error_of(folder.path(), {.classes = {"ant", "cat"}}), HasSubstr("'dog' in"));
}

TEST(ImageFolder, ComparesClassesOfTrainAndVal) {
  const ImageFolder train{.root = "t", .classes = {"cat", "dog"}, .files = {}, .skipped = {}};
  ImageFolder val = train;
  EXPECT_NO_THROW(check_same_classes(train, val));
  val.classes = {"cat", "dogs"};
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { check_same_classes(train, val); }),
              AllOf(HasSubstr("only in train (t): 'dog';"), HasSubstr("'dogs'")));
}

TEST(ImageFolder, FingerprintFollowsEveryEdit) {
  TemporaryFolder folder;
  folder.write("cat/1.jpg", "12");
  folder.write("cat/2.jpg", "12");
  folder.write("dog/1.jpg", "12");
  const auto now = [&] { return fingerprint(open_image_folder(folder.path())); };
  std::vector<std::string> seen = {now()};
  EXPECT_EQ(now(), seen[0]);
  folder.write("dog/1.jpg", "123");  // size
  seen.push_back(now());
  std::filesystem::rename(folder / "dog/1.jpg", folder / "dog/3.jpg");  // path
  seen.push_back(now());
  std::filesystem::rename(folder / "cat/2.jpg", folder / "dog/2.jpg");  // label
  seen.push_back(now());
  folder.write("dog/4.jpg");  // a file more
  seen.push_back(now());
  std::filesystem::rename(folder / "dog", folder / "hound");  // class name
  seen.push_back(now());
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), seen.size());
}

TEST(ImageFolder, SplitsEachClassAlike) {
  ImageFolder all{.root = "r", .classes = {"a", "b"}, .files = {}, .skipped = {}};
  for (int i = 0; i < 100; ++i) {
    all.files.push_back({.path = fmt::format("{:03}", i), .label = i < 90 ? 0 : 1, .bytes = 1});
  }
  const SplitFolder split = split_stratified(all, 0.2, 7);
  EXPECT_EQ(split.train.counts(), (std::vector<int64_t>{72, 8}));
  EXPECT_EQ(split.val.counts(), (std::vector<int64_t>{18, 2}));
  Names both = paths(split.train);
  EXPECT_TRUE(std::is_sorted(both.begin(), both.end()));
  for (const std::string& path : paths(split.val)) both.push_back(path);
  std::sort(both.begin(), both.end());
  EXPECT_EQ(both, paths(all));
  EXPECT_EQ(paths(split_stratified(all, 0.2, 7).val), paths(split.val));
  EXPECT_NE(paths(split_stratified(all, 0.2, 8).val), paths(split.val));
  EXPECT_EQ(split_stratified(all, 0.001, 7).val.counts(), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(split_stratified(all, 0.999, 7).train.counts(), (std::vector<int64_t>{1, 1}));
  EXPECT_THROW(split_stratified(all, 0, 7), Error);
  EXPECT_THROW(split_stratified(all, 1, 7), Error);
  all.files.resize(91);  // the one example of a class trains
  EXPECT_EQ(split_stratified(all, 0.2, 7).train.counts(), (std::vector<int64_t>{72, 1}));
  EXPECT_EQ(split_stratified(all, 0.2, 7).val.counts(), (std::vector<int64_t>{18, 0}));
  all.files.erase(all.files.begin(), all.files.begin() + 89);
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { split_stratified(all, 0.2, 7); }),
              HasSubstr("no class has the 2 examples that are needed to split it into train and "
                        "val. Add examples, or name data.val"));
}

// Copies train together or validate together, whatever their names and labels are; folders without
// copies are divided as ever.
TEST(ImageFolder, CopiesStayOnOneSide) {
  TemporaryFolder folder;
  for (int i = 0; i < 60; ++i) {
    const int content = i < 40 ? i / 4 : i;  // ten contents of four copies each, twenty alone
    folder.write(fmt::format("{}/{:02}.jpg", i % 2 == 0 ? "cat" : "dog", i),
                 fmt::format("image {:02}", content));
  }
  const ImageFolder all = open_image_folder(folder.path());
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const SplitFolder split = split_stratified(all, 0.2, seed);
    EXPECT_EQ(split.copies, 30);
    std::set<std::string> sides[2];
    for (const ImageFolder* part : {&split.train, &split.val}) {
      for (int64_t i = 0; i < part->size(); ++i) {
        sides[part == &split.val].insert(read_file(part->file(i), 100, ErrorKind::data));
      }
    }
    for (const std::string& content : sides[1]) {
      EXPECT_FALSE(sides[0].contains(content)) << content << " is on both sides, seed " << seed;
    }
    EXPECT_EQ(split.train.size() + split.val.size(), 60);
    EXPECT_NEAR(static_cast<double>(split.val.size()), 12, 4) << seed;
  }
  EXPECT_EQ(split_stratified(all, 0.2, 1).note(),
            "30 images identical to another; identical images stay in the same split");

  TemporaryFolder same;
  for (const char* name : {"cat/1.jpg", "cat/2.jpg", "dog/1.jpg"}) same.write(name, "the same");
  same.write("dog/2.jpg", "another1");
  ImageFolder alike = open_image_folder(same.path());
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { split_stratified(alike, 0.5, 1); }),
              AllOf(HasSubstr("the 2 examples of class 'cat' are copies"),
                    HasSubstr("whisker data check")));
  EXPECT_EQ(find_contradictions(alike).count, 3);
  EXPECT_EQ(find_shared(alike, alike).count, 4);
}

// As 666.jpg and 11702.jpg of the cats and dogs of Microsoft.
TEST(ImageFolder, EmptyFilesAreNoCopies) {
  TemporaryFolder folder;
  for (const char* name : {"cat/1.jpg", "dog/1.jpg"}) folder.write(name, "");
  for (const char* name : {"cat/2.jpg", "cat/3.jpg", "dog/2.jpg", "dog/3.jpg"}) {
    folder.write(name, name);
  }
  ImageFolder all = open_image_folder(folder.path());
  EXPECT_EQ(find_contradictions(all).count, 0);
  const SplitFolder split = split_stratified(all, 0.3, 1);
  EXPECT_EQ(split.copies, 0);
  EXPECT_EQ(split.contradictions.count, 0);
  TemporaryFolder other;
  for (const char* name : {"cat/7.jpg", "dog/7.jpg"}) other.write(name, "");
  ImageFolder val = open_image_folder(other.path());
  EXPECT_EQ(find_shared(val, all).count, 0);
}

TEST(ImageFolder, ReadsTheAntsAndBees) {
  const auto root = test::test_data_dir() / "hymenoptera" / "train";
  if (!std::filesystem::exists(root)) GTEST_SKIP() << root << " is missing";
  const ImageFolder found = open_image_folder(root);
  EXPECT_EQ(found.classes, (Names{"ants", "bees"}));
  ASSERT_EQ(found.skipped.size(), 1u);
  EXPECT_THAT(found.skipped[0].path, testing::EndsWith(".gif"));
}

}  // namespace
}  // namespace whisker
