// Safetensors: layout on disk, round trips, one exact message for every rejection, and that a
// refused or interrupted write leaves the old file.
#include "core/io/safetensors.h"

#include "faulty_calls.h"
#include "scratch.h"
#include "tests/support/error_of.h"
#include "tests/support/peak_memory.h"
#include "tests/support/test_data.h"

#include <array>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// A file of this header text and these bytes.
std::string file_of(std::string_view header, std::string_view data) {
  const uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file.append(header).append(data);
}

SafetensorsFile parse(std::string_view file) {
  return SafetensorsFile::parse(std::as_bytes(std::span(file)), "w.safetensors");
}

std::string file_refusal(std::string_view file) {
  return test::message_of(ErrorKind::checkpoint, [&] { parse(file); });
}

// Refusal of a header over four bytes of data.
std::string header_refusal(std::string_view header) {
  return file_refusal(file_of(header, std::string_view("\0\0\0\0", 4)));
}

constexpr std::string_view good =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";

TEST(Safetensors, ReadsTensorsAndMetadataWithoutCopying) {
  const std::string file =
      file_of(R"({"b":{"dtype":"U8","shape":[3],"data_offsets":[4,7]},"__metadata__":{"x":"1"},)"
              R"("a":{"shape":[1,1],"dtype":"F32","data_offsets":[0,4],"note":{"deep":[[[{}]]]}}})",
              "abcdefg");
  const SafetensorsFile weights = parse(file);
  EXPECT_EQ(weights.metadata().at("x"), "1");
  ASSERT_EQ(weights.tensors().size(), 2u);
  EXPECT_EQ(weights.tensors()[0].name, "a");
  const SafetensorsTensor& b = *weights.find("b");
  EXPECT_EQ(b.dtype, DType::u8);
  EXPECT_THAT(b.shape, ElementsAre(3u));
  EXPECT_EQ(reinterpret_cast<const char*>(b.bytes.data()), file.data() + file.size() - 3);
  EXPECT_EQ(weights.find("c"), nullptr);
}

TEST(Safetensors, AcceptsWhatPythonAccepts) {
  for (const char* header :
       {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}  \n\t",
        "{\"\":{\"dtype\":\"BOOL\",\"shape\":[4],\"data_offsets\":[0,4]}}",
        "{\"__metadata__\":null,\"a\":{\"dtype\":\"\\u004632\",\"shape\":[],\"data_offsets\":[0,4]}"
        "}",
        "{\"a\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},"
        "\"b\":{\"dtype\":\"F64\",\"shape\":[0,18446744073709551615],\"data_offsets\":[4,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1,\"x\":-1e-999}}"}) {
    EXPECT_EQ(header_refusal(header), "no error") << header;
  }
  EXPECT_EQ(file_refusal(file_of("{}", "")), "no error");
}

TEST(Safetensors, RefusesBrokenFrames) {
  EXPECT_EQ(file_refusal(std::string(7, '\0')),
            "w.safetensors: expected a safetensors file of at least 8 bytes, got 7.");
  EXPECT_EQ(
      file_refusal(std::string(8, '\x7f')),
      "w.safetensors: not a safetensors file: its header would have 9187201950435737471 bytes, "
      "at most 100000000 are allowed.");
  EXPECT_EQ(
      file_refusal(std::string("\x05\0\0\0\0\0\0\0{}  ", 12)),
      "w.safetensors: truncated or not a safetensors file: expected a header of 5 bytes, the file "
      "has 4 after its first 8.");
  EXPECT_EQ(file_refusal(file_of("", "")),
            "w.safetensors: not a safetensors file: its header does not begin with '{'.");
  EXPECT_EQ(file_refusal(file_of(" {}", "")),
            "w.safetensors: not a safetensors file: its header does not begin with '{'.");
  EXPECT_EQ(file_refusal(file_of(good, "123")),
            "w.safetensors: the file is cut short: expected 4 bytes of tensors, got 3. Download or "
            "copy it again.");
  EXPECT_EQ(file_refusal(file_of(good, "12345")),
            "w.safetensors: the file is too long: expected 4 bytes of tensors, got 5. Download or "
            "copy it again.");
}

TEST(Safetensors, RefusesBrokenHeaders) {
  const auto tensor = [](std::string_view fields) {
    return header_refusal("{\"a\":{" + std::string(fields) + "}}");
  };
  const std::string start = "w.safetensors: tensor 'a': expected ";
  EXPECT_EQ(tensor(R"("shape":[1],"data_offsets":[0,4])"), start + "dtype, got none.");
  EXPECT_EQ(tensor(R"("dtype":"F32","data_offsets":[0,4])"), start + "shape, got none.");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[1])"), start + "data_offsets, got none.");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"dtype":"F32")"),
            start + "dtype once, got it twice.");
  EXPECT_EQ(tensor(R"("dtype":"I8","shape":[4],"data_offsets":[0,4])"),
            start +
                "a dtype of F64, F32, F16, BF16, I64, I32, U8, BOOL, got 'I8'. Convert the file "
                "to one of these in Python.");
  EXPECT_EQ(tensor(R"("dtype":{"F32":null},"shape":[1],"data_offsets":[0,4])"),
            start + "dtype as text, got an object.");
  EXPECT_EQ(tensor(R"("dtype":3,"shape":[1],"data_offsets":[0,4])"),
            start + "dtype as text, got a number.");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":1,"data_offsets":[0,4])"),
            start + "shape as an array of integers, got a number.");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"),
            start + "unsigned integers in shape, got 1.0.");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"),
            start + "unsigned integers in shape, got a negative number.");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,4])"),
            start + "unsigned integers in shape, got 18446744073709551616.");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[[1]],"data_offsets":[0,4])"),
            start + "unsigned integers in shape, got an array.");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0])"),
            start + "two data_offsets, got 1.");
  EXPECT_EQ(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,4])"),
            start + "two data_offsets, got more.");
  EXPECT_EQ(header_refusal(R"({"a":["F32",[1],[0,4]]})"),
            start + "an object with dtype, shape and data_offsets, got an array.");
  EXPECT_EQ(header_refusal(R"({"a":null})"),
            start + "an object with dtype, shape and data_offsets, got null.");
  EXPECT_EQ(header_refusal(R"({"__metadata__":{"x":1}})"),
            "w.safetensors: __metadata__: 'x': expected text, got a number.");
  EXPECT_EQ(header_refusal(R"({"__metadata__":[]})"),
            "w.safetensors: __metadata__: expected an object, got an array.");
  EXPECT_EQ(header_refusal(R"({"__metadata__":{"x":"1","x":"2"}})"),
            "w.safetensors: __metadata__: expected every key once, got 'x' twice.");
  EXPECT_EQ(header_refusal(R"({"__metadata__":{},"__metadata__":{}})"),
            "w.safetensors: header: expected __metadata__ once, got it twice.");
  EXPECT_EQ(header_refusal("{\"a\":{\"x\":" + std::string(126, '[') + std::string(126, ']') + "}}"),
            "w.safetensors: header: expected at most 127 nested objects and arrays.");
  const std::string at =
      "w.safetensors: header: expected valid JSON in UTF-8, got an error at byte ";
  EXPECT_EQ(header_refusal("{\"\xff\":1}"), at + "3.");
  EXPECT_EQ(header_refusal("{\"\\ud800\":1}"), at + "9.");
  EXPECT_EQ(header_refusal("{} {}"), at + "4.");
  EXPECT_EQ(header_refusal(std::string_view("{}\0", 3)), at + "3.");
  EXPECT_EQ(header_refusal("{"), at + "2.");
  EXPECT_EQ(header_refusal("{\"a\":{\"dtype\":\"F32\",}}"), at + "21.");
}

TEST(Safetensors, RefusesBrokenLayouts) {
  const auto two = [](std::string_view a, std::string_view b) {
    return header_refusal("{\"a\":{\"dtype\":\"U8\"," + std::string(a) +
                          "},\"b\":{\"dtype\":\"U8\"," + std::string(b) + "}}");
  };
  EXPECT_EQ(two(R"("shape":[3],"data_offsets":[0,3])", R"("shape":[2],"data_offsets":[2,4])"),
            "w.safetensors: tensor 'b': expected to begin at byte 3, where the one before it ends, "
            "got 2: tensors overlap.");
  EXPECT_EQ(two(R"("shape":[1],"data_offsets":[0,1])", R"("shape":[2],"data_offsets":[2,4])"),
            "w.safetensors: tensor 'b': expected to begin at byte 1, where the one before it ends, "
            "got 2: tensors leave a hole.");
  EXPECT_EQ(two(R"("shape":[3],"data_offsets":[0,2])", R"("shape":[2],"data_offsets":[2,4])"),
            "w.safetensors: tensor 'a': expected 3 bytes for U8 of shape (3), got data_offsets [0, "
            "2].");
  EXPECT_EQ(two(R"("shape":[0],"data_offsets":[3,2])", R"("shape":[4],"data_offsets":[0,4])"),
            "w.safetensors: tensor 'a': expected 0 bytes for U8 of shape (0), got data_offsets [3, "
            "2].");
  EXPECT_EQ(
      two(R"("shape":[4294967296,4294967296,0],"data_offsets":[0,0])",
          R"("shape":[4],"data_offsets":[0,4])"),
      "w.safetensors: tensor 'a': the byte count of shape (4294967296,4294967296,0) overflows "
      "64 bits.");
  EXPECT_EQ(two(R"("shape":[2305843009213693952],"data_offsets":[0,2305843009213693952])",
                R"("shape":[4],"data_offsets":[0,4])"),
            "w.safetensors: tensor 'a': the byte count of shape (2305843009213693952) overflows 64 "
            "bits.");
  EXPECT_EQ(header_refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                           R"("a":{"dtype":"U8","shape":[0],"data_offsets":[4,4]}})"),
            "w.safetensors: expected every tensor once, got 'a' twice.");
}

TEST(Safetensors, RecognisesPicklesAndNamesTheRemedy) {
  const std::string rest =
      " as torch.save writes. Convert it: whisker import FILE -o weights.safetensors.";
  EXPECT_EQ(file_refusal("PK\x03\x04 and so on"),
            "w.safetensors: expected a safetensors file, got a zip archive" + rest);
  EXPECT_EQ(file_refusal("\x80\x02}q\x01."),
            "w.safetensors: expected a safetensors file, got a pickle" + rest);
  // A header of 0x0280 bytes begins with the same two bytes.
  std::string header(good);
  header.resize(0x280, ' ');
  EXPECT_EQ(header_refusal(header), "no error");
}

// What a failed download leaves in place of weights.
TEST(Safetensors, SaysWhatATextInPlaceOfWeightsIs) {
  const std::string expected =
      "w.safetensors: expected a safetensors file or a zip file of torch.save, got ";
  EXPECT_EQ(file_refusal(""), expected + "an empty file. Download or copy it again.");
  for (const char* page : {"\xef\xbb\xbf\n<!DOCTYPE html>\n<title>Log in</title>",
                           "<!-- a comment --><HTML><title>Log in</title>"}) {
    const std::string said = file_refusal(page);
    EXPECT_THAT(said, StartsWith(expected + "a web page (HTML) that begins with '<!")) << page;
    EXPECT_THAT(said, EndsWith("Log in</title>'. Download the weights again, from a link to the "
                               "file itself."))
        << page;
  }
  EXPECT_EQ(file_refusal("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\n"),
            expected +
                "a Git LFS pointer that begins with 'version https://git-lfs.github.com/spec/v1\\x0"
                "aoid sha256:4d7a21...'. Download the weights that it stands for: git lfs pull.");
  EXPECT_EQ(
      file_refusal("{\"error\": \"not found\"}\n"),
      expected +
          "a text file that begins with '{\"error\": \"not found\"}\\x0a'. Download or copy the "
          "weights again.");
  EXPECT_THAT(file_refusal(std::string(2000, 'a') + "\xe9"), StartsWith(expected + "a text file"));
  EXPECT_THAT(file_refusal("Not \x1b[2Ja text"), HasSubstr("not a safetensors file"));
}

SafetensorsEntry entry(std::string name, DType dtype, std::vector<uint64_t> shape,
                       std::string_view bytes) {
  return {std::move(name), dtype, std::move(shape),
          [bytes] { return std::as_bytes(std::span(bytes)); }};
}

TEST(Safetensors, WritesSortedPaddedAndReadsBack) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "w.safetensors";
  const WrittenFile written =
      write_safetensors(path, {{"format", "pt"}, {"classes", "[\"c\xc3\xa9\"]"}},
                        {entry("b", DType::u8, {3}, "xyz"), entry("z", DType::f32, {}, "1234"),
                         entry("a", DType::f32, {2, 1}, "abcdefgh"),
                         entry("n", DType::i64, {0, 5}, ""), entry("h", DType::bf16, {1}, "hh")});
  const std::string content = content_of(path);
  EXPECT_EQ(written.bytes, content.size());
  EXPECT_EQ(written.hash, hash64(content));
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, content.data(), 8);
  EXPECT_EQ(header_bytes % 8, 0u);
  EXPECT_TRUE(content.ends_with("abcdefgh1234hhxyz"));
  EXPECT_TRUE(content.substr(8).starts_with(
      R"({"__metadata__":{"classes":"[\"cé\"]","format":"pt"},"n":{"dtype":"I64","shape":[0,5],)"
      R"("data_offsets":[0,0]},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"z":)"));

  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_EQ(file.metadata().at("classes"), "[\"c\xc3\xa9\"]");
  EXPECT_EQ(file.tensors().size(), 5u);
  EXPECT_EQ(file.find("z")->bytes.size(), 4u);
  EXPECT_EQ(std::memcmp(file.find("b")->bytes.data(), "xyz", 3), 0);
}

TEST(Safetensors, WriterRefusesBadEntriesAndKeepsTheOldFile) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "w.safetensors";
  put_file(path, "old");
  const auto refused = [&](std::vector<SafetensorsEntry> entries) -> std::string {
    const std::string message = test::message_of(
        ErrorKind::usage, [&] { write_safetensors(path, {}, std::move(entries)); });
    EXPECT_EQ(content_of(path), "old");
    return message.substr(path.string().size());
  };
  EXPECT_EQ(refused({entry("a", DType::u8, {1}, "x"), entry("a", DType::u8, {1}, "x")}),
            ": expected every tensor once and none named __metadata__, got 'a'.");
  EXPECT_EQ(refused({entry("__metadata__", DType::u8, {1}, "x")}),
            ": expected every tensor once and none named __metadata__, got '__metadata__'.");
  EXPECT_EQ(refused({entry("\xff", DType::u8, {1}, "x")}),
            ": expected tensor names in UTF-8, got '\\xff'.");
  EXPECT_EQ(refused({entry("a", DType::f32, {2}, "1234")}),
            ": tensor 'a': expected 8 bytes for F32 of shape (2), got 4.");
  EXPECT_EQ(refused({entry("a", DType::f32, {1ull << 32, 1ull << 32}, "")}),
            ": tensor 'a': the byte count of shape (4294967296,4294967296) overflows 64 bits.");
}

TEST(Safetensors, AFullDiskKeepsTheOldFile) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "w.safetensors";
  const std::string big(300'000, 'w');
  int n = 0;
  for (int index = 0;; ++index) {
    put_file(path, "old");
    const FaultyCalls calls(index, ENOSPC);
    try {
      write_safetensors(path, {}, {entry("a", DType::u8, {300'000}, big)}, calls);
      ASSERT_TRUE(calls.failed_call().empty());
      break;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::disk);
      if (calls.failed_call().find("folder") == std::string::npos) {
        EXPECT_EQ(content_of(path), "old") << calls.failed_call();
      } else {
        EXPECT_NO_THROW(SafetensorsFile::open(path));
      }
    }
    ++n;
  }
  EXPECT_GE(n, 8);
  fmt::print("n = {} injected failures\n", n);
}

TEST(Safetensors, MemoryStaysBelowTwiceTheFileAnd64MiB) {
  if (is_instrumented) GTEST_SKIP() << "sanitizers keep freed memory";
  const auto repeated = [](std::string_view item, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) {
      text += fmt::format("{}\"{}\":{}", i == 0 ? "" : ",", i, item);
    }
    return text;
  };
  std::string zeros = "0";
  for (int i = 1; i < 64; ++i) zeros += ",0";
  const std::string empty = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  const std::string axes = R"({"dtype":"U8","shape":[)" + zeros + R"(],"data_offsets":[0,0]})";
  const std::string length(16 << 20, 'n');
  const std::vector<std::pair<const char*, std::string>> files = {
      {"ordinary", file_of(R"({"a":{"dtype":"U8","shape":[50000000],"data_offsets":[0,50000000]}})",
                           std::string(50'000'000, 'x'))},
      {"names", file_of("{" + repeated(empty, 65'536) + "}", "")},
      {"axes", file_of("{" + repeated(axes, 65'536) + "}", "")},
      {"metadata", file_of("{\"__metadata__\":{" + repeated("\"\"", 65'535) + "}}", "")},
      {"long name", file_of("{\"" + length + "\":" + empty + "}", "")},
      {"long value", file_of("{\"__metadata__\":{\"a\":\"" + length + "\"}}", "")},
  };
  for (const auto& [name, file] : files) {
    const int64_t growth = peak_growth_bytes([&file = file] { parse(file); });
    fmt::print("{}: file {:.1f} MiB, reading it takes {:.1f} MiB more\n", name,
               static_cast<double>(file.size()) / 0x1p20, static_cast<double>(growth) / 0x1p20);
    EXPECT_GE(growth, 0);
    EXPECT_LE(growth, static_cast<int64_t>(file.size()) + (64 << 20)) << name;
  }
  EXPECT_LE(peak_growth_bytes([&] { parse(files[0].second); }), 4 << 20) << "no copy of tensors";
}

TEST(Safetensors, RefusesHeadersBuiltToTakeMemory) {
  const std::string long_name = "{\"" + std::string((16 << 20) + 1, 'n') + "\":1}";
  EXPECT_EQ(header_refusal(long_name),
            "w.safetensors: header: expected texts of at most 16.0 MiB, got 16.0 MiB.");
  std::string many = "{\"__metadata__\":{";
  for (int i = 0; i < 65'536; ++i) many += fmt::format("{}\"{}\":\"\"", i == 0 ? "" : ",", i);
  EXPECT_EQ(header_refusal(many + "}}"),
            "w.safetensors: header: expected at most 65536 names, got more.");
  std::string axes = "0";
  for (int i = 0; i < 64; ++i) axes += ",0";
  EXPECT_EQ(header_refusal("{\"a\":{\"shape\":[" + axes + "]}}"),
            "w.safetensors: tensor 'a': expected at most 64 axes, got more.");
}

// A file made by torchvision's names and Python's safetensors (README.md of the data folder).
TEST(Safetensors, LoadsARealImageNetModel) {
  const std::filesystem::path path =
      test::test_data_dir() / "weights/squeezenet1_1_imagenet.safetensors";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is missing";
  const SafetensorsFile file = SafetensorsFile::open(path);
  uint64_t parameters = 0;
  for (const SafetensorsTensor& tensor : file.tensors()) {
    EXPECT_EQ(tensor.dtype, DType::f32);
    parameters += tensor.bytes.size() / 4;
  }
  EXPECT_EQ(file.tensors().size(), 52u);
  EXPECT_EQ(parameters, 1'235'496u);
  EXPECT_THAT(file.find("features.0.weight")->shape, ElementsAre(64u, 3u, 3u, 3u));
  EXPECT_TRUE(file.metadata().contains("classes"));
}

}  // namespace
}  // namespace whisker
