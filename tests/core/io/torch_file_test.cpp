// Files of torch.save: tensors of both formats, and one error for whatever else a pickle or an
// archive may hold. tests/support/torch_files.py writes the files read here.
#include "core/io/torch_file.h"

#include "torch_samples.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::string text(const std::string& value) {
  return std::string("\x8c") + static_cast<char>(value.size()) + value;
}

std::string integer(int64_t value) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &value, 8);
  return "\x8a\x08" + bytes;
}

std::string tuple(const std::vector<int64_t>& values) {
  std::string opcodes = "(";
  for (const int64_t value : values) opcodes += integer(value);
  return opcodes + "t";
}

// {"w": a tensor of storage "0"}
std::string one_tensor(int64_t offset, const std::vector<int64_t>& shape,
                       const std::vector<int64_t>& strides, const std::string& key = "0") {
  return "}" + text("w") + "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") +
         "ctorch\nFloatStorage\n" + text(key) + text("cpu") + "K\x04tQ" + integer(offset) +
         tuple(shape) + tuple(strides) + "\x89}tRs";
}

TEST(TorchFile, ReadsBothFormatsAndCheckpoints) {
  for (const char* name : {"state.pth", "state_old.pth", "wrapped.pth", "wrapped_old.pth"}) {
    SCOPED_TRACE(name);
    const std::string content = torch_sample(name);
    const SafetensorsFile file = read_torch(content);
    const std::string prefix = std::string(name).starts_with("wrapped") ? "module." : "";
    ASSERT_EQ(file.tensors().size(), 7u);
    const SafetensorsTensor& weight = *file.find(prefix + "weight");
    EXPECT_EQ(weight.dtype, DType::f32);
    EXPECT_THAT(weight.shape, ElementsAre(3u, 4u));
    const auto* begin = reinterpret_cast<const std::byte*>(content.data());
    EXPECT_TRUE(weight.bytes.data() >= begin && weight.bytes.data() < begin + content.size());
    EXPECT_THAT(values_of<float>(file, prefix + "weight"),
                ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
    EXPECT_THAT(values_of<float>(file, prefix + "transposed"),
                ElementsAre(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11));
    EXPECT_THAT(values_of<float>(file, prefix + "inner"), ElementsAre(5, 6, 9, 10));
    EXPECT_THAT(values_of<float>(file, prefix + "spread"), ElementsAre(7, 7, 7, 7, 7, 7));
    EXPECT_EQ(file.find(prefix + "half")->dtype, DType::f16);
    EXPECT_THAT(file.find(prefix + "empty")->shape, ElementsAre(0u, 4u));
    EXPECT_TRUE(file.find(prefix + "num_batches_tracked")->shape.empty());
    EXPECT_THAT(values_of<int64_t>(file, prefix + "num_batches_tracked"), ElementsAre(3));
  }
}

TEST(TorchFile, OpensByContentWhateverTheName) {
  const TemporaryFolder folder;
  put_file(folder / "w.bin", torch_sample("state.pth"));
  EXPECT_EQ(open_weights(folder / "w.bin").tensors().size(), 7u);
  EXPECT_EQ(weights_format(torch_sample("state.pth")), WeightsFormat::torch_zip);
  EXPECT_EQ(weights_format(torch_sample("state_old.pth")), WeightsFormat::torch_pickle);
}

TEST(TorchFile, SaysWhatATextInPlaceOfWeightsIs) {
  const TemporaryFolder folder;
  put_file(folder / "w.pth", "<!DOCTYPE html><html>");
  EXPECT_EQ(test::message_of(ErrorKind::checkpoint, [&] { open_weights(folder / "w.pth"); }),
            (folder / "w.pth").string() +
                ": expected a safetensors file or a zip file of torch.save, got a web page (HTML) "
                "that begins with '<!DOCTYPE html><html>'. Download the weights again, from a link "
                "to the file itself.");
}

TEST(TorchFile, RefusesNamesThatRunCodeAndSaysThem) {
  EXPECT_THAT(
      torch_refusal(old_file("cos\nsystem\n" + text("true") + "\x85R")),
      HasSubstr("w.pth: expected tensors alone, got 'os.system', which Python would import and "
                "may call. Nothing was executed. Save the weights alone, "
                "torch.save(model.state_dict(), FILE)"));
  EXPECT_THAT(torch_refusal(old_file(text("posix") + text("system") + "\x93")),
              HasSubstr("'posix.system'"));
  EXPECT_THAT(torch_refusal(old_file("cbuiltins\neval\n)R")), HasSubstr("'builtins.eval'"));
  EXPECT_THAT(torch_refusal(old_file("cos.path\nexists\n)R")), HasSubstr("'os.path.exists'"));
  // What is not known to run code is not built.
  EXPECT_EQ(
      torch_refusal(old_file("ctorch\nload\n)R", true)),
      "w.pth: expected a state_dict of named tensors, got an object of 'torch.load', which is "
      "not built. Save the weights alone: torch.save(model.state_dict(), FILE).");
  EXPECT_THAT(torch_refusal(old_file("ccollections\nFloatStorage\n)R", true)),
              HasSubstr("an object of 'collections.FloatStorage'"));
  EXPECT_THAT(torch_refusal(torch_sample("names.pth")), HasSubstr("'__builtin__.print'"));
}

TEST(TorchFile, ChecksEveryTensorAgainstItsStorage) {
  const auto read = [](int64_t offset, std::vector<int64_t> shape, std::vector<int64_t> strides) {
    return torch_refusal(old_file(one_tensor(offset, shape, strides)));
  };
  EXPECT_EQ(read(0, {2, 2}, {2, 1}), "no error");
  EXPECT_EQ(read(3, {1, 1}, {1 << 30, 1 << 30}), "no error");
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(
      read(1, {2, 2}, {2, 1}),
      "w.pth: tensor 'w': its shape (2,2), strides (2,1) and offset 1 reach beyond its storage "
      "of 4 elements. Download or copy the file again.");
  // More bytes than 64 bits count, from one element.
  for (const int64_t many : {(int64_t{1} << 62) + 1, int64_t{1} << 62, int64_t{1} << 40}) {
    EXPECT_THAT(read(0, {many}, {0}), HasSubstr("more than twice as large as the file"));
  }
  for (const std::string& message :
       {read(0, {3}, {2}), read(4, {1}, {1}), read(most, {most}, {most}),
        read(0, {most, 9}, {0, 0}), read(0, {most, most, most}, {0, 0, 0}),
        read(most, {2}, {most})}) {
    EXPECT_THAT(message, HasSubstr("reach beyond its storage"));
  }
  EXPECT_THAT(read(0, {int64_t{1} << 32}, {0}), HasSubstr("more than twice as large as the file"));
  EXPECT_THAT(read(0, {-1}, {1}), HasSubstr("expected extents of at least 0"));
  EXPECT_THAT(read(-1, {1}, {1}), HasSubstr("expected an offset of at least 0"));
  EXPECT_THAT(read(0, {1, 1}, {1}), HasSubstr("a tensor needs a stride for each axis"));
  EXPECT_THAT(torch_refusal(old_file(one_tensor(0, {1}, {1}, "7"))),
              HasSubstr("storage '0' belongs to no"));
}

// Beside the weights, as trainers list them, or as torchvision's ImageFolder numbers them.
TEST(TorchFile, ReadsTheNamesOfItsClasses) {
  const std::string model = "}" + text("model") + one_tensor(0, {2, 2}, {2, 1}) + "s";
  const std::string listed = "](" + text("dog") + text("cat") + "e";
  const std::string numbered =
      "}" + text("cat") + integer(1) + "s" + text("dog") + integer(0) + "s";
  for (const auto& [key, value] : {std::pair("classes", listed), std::pair("class_names", listed),
                                   std::pair("class_to_idx", numbered)}) {
    const std::string content = old_file(model + text(key) + value + "s");
    const SafetensorsFile file = parse_torch_file(std::as_bytes(std::span(content)), "w.pth");
    EXPECT_EQ(file.metadata().at("classes"), R"(["dog","cat"])");
    EXPECT_THAT(file.notes(), ElementsAre(fmt::format(
                                  "w.pth: the names of its 2 classes are read from '{}'", key)));
  }
  // Of no tensor's rows: of another network.
  const std::string three = "](" + text("dog") + text("cat") + text("cow") + "e";
  const std::string content = old_file(model + text("classes") + three + "s");
  const SafetensorsFile file = parse_torch_file(std::as_bytes(std::span(content)), "w.pth");
  EXPECT_FALSE(file.metadata().contains("classes"));
  EXPECT_THAT(
      file.notes(),
      ElementsAre("w.pth: the names of classes in 'classes' are left out: they are 3, and no "
                  "tensor has as many rows",
                  HasSubstr("left out: 'classes'")));
  const std::string gap = "}" + text("cat") + integer(2) + "s" + text("dog") + integer(0) + "s";
  const std::string with_gap = old_file(model + text("class_to_idx") + gap + "s");
  EXPECT_THAT(parse_torch_file(std::as_bytes(std::span(with_gap)), "w.pth").notes(),
              Contains(HasSubstr("their numbers are not 0 to 1, each once")));
  const std::string other = "](" + text("cat") + text("dog") + "e";
  EXPECT_THAT(torch_refusal(old_file(model + text("classes") + other + "s" + text("class_to_idx") +
                                     numbered + "s")),
              HasSubstr("w.pth: 'classes' and 'class_to_idx' contradict each other: output 0 is "
                        "'cat' by the first, 'dog' by the second."));
  EXPECT_EQ(torch_refusal(old_file(model + text("classes") + listed + "s" + text("class_to_idx") +
                                   numbered + "s")),
            "no error");
  // Names of the same classes in other words.
  const std::string ids = "](" + text("n02121808") + text("n02084071") + "e";
  EXPECT_EQ(torch_refusal(
                old_file(model + text("classes") + ids + "s" + text("class_names") + listed + "s")),
            "no error");
}

// Tensors with attributes, those of types without a storage of their own, and Python 2's dicts.
TEST(TorchFile, KnowsEveryMakerOfTensors) {
  const std::string storage =
      "(" + text("storage") + "ctorch\nFloatStorage\n" + text("0") + text("cpu") + "K\x04tQ";
  const std::string arguments = storage + "K\x01" + tuple({2}) + tuple({1}) + "\x89}";
  const std::string v2 = "ctorch._utils\n_rebuild_tensor_v2\n",
                    tensor = v2 + "(" + arguments + "tR";
  const std::string subclass = "ctorch._tensor\n_rebuild_from_type_v2\n(" + v2 +
                               "ctorch.nn.parameter\nBuffer\n(" + arguments + "t}tR";
  const std::string pairs = "ccollections\nOrderedDict\n](](" + text("w") + tensor + "ee\x85R";
  const std::string parameter = "ctorch._utils\n_rebuild_parameter\n(" + tensor + "\x88}tR";
  for (const std::string& opcodes :
       {"}" + text("w") + tensor + "s", "}" + text("w") + subclass + "s",
        "}" + text("w") + parameter + "s", pairs}) {
    const std::string content = old_file(opcodes);
    EXPECT_EQ(torch_refusal(content), "no error");
    EXPECT_EQ(values_of<float>(read_torch(content), "w").size(), 2u);
  }
  const std::string v3 = "ctorch._utils\n_rebuild_tensor_v3\n(" + arguments + "ctorch\nuint16\n}tR";
  EXPECT_THAT(torch_refusal(old_file("}" + text("w") + v3 + "s")),
              HasSubstr("tensor 'w': expected f64, f32, f16, bf16, i64, i32, u8 or bool, got a "
                        "torch.uint16. Convert it in Python."));
  const std::string negated = v2 + "(" + arguments + "}" + text("neg") + "\x88stR";
  EXPECT_THAT(read_torch(old_file("}" + text("w") + negated + "s")).notes(), testing::SizeIs(1));
  EXPECT_THAT(torch_refusal(old_file("}" + text("w") + subclass.substr(0, subclass.size() - 3) +
                                     "00tR" + "s")),
              HasSubstr("a damaged pickle"));
  const std::string nested = "ctorch._tensor\n_rebuild_from_type_v2\n(" +
                             subclass.substr(0, subclass.find('(')) +
                             "ctorch.nn.parameter\nBuffer\n(" + arguments + "t}tR";
  EXPECT_THAT(torch_refusal(old_file("}" + text("w") + nested + "s")),
              HasSubstr("a damaged pickle: a call of torch._tensor._rebuild_from_type_v2"));
}

TEST(TorchFile, NamesTheTensorThatHasNoValuesInAStorage) {
  const auto made_by = [](const std::string& maker) {
    return text("w") + "ctorch._utils\n" + maker + "\n)R";
  };
  const auto refusal = [&](const std::string& maker) {
    return torch_refusal(old_file("}" + made_by(maker) + "s", true));
  };
  EXPECT_EQ(refusal("_rebuild_sparse_tensor"),
            "w.pth: tensor 'w': expected a dense tensor with values, got a sparse tensor. Save it "
            "dense: tensor.to_dense().");
  EXPECT_THAT(refusal("_rebuild_meta_tensor_no_storage"),
              HasSubstr("got a tensor on the device meta, without values. Load"));
  EXPECT_THAT(refusal("_rebuild_nested_tensor"), HasSubstr("got a nested tensor. Save its parts"));
  const std::string wrapped = "}" + text("state_dict") + "}" + made_by("_rebuild_sparse_tensor");
  EXPECT_THAT(torch_refusal(old_file(wrapped + "ss", true)), HasSubstr("got a sparse tensor"));

  const std::string quantised = "}" + text("w") + "ctorch._utils\n_rebuild_qtensor\n((" +
                                text("storage") + "ctorch\nQInt8Storage\n" + text("0") +
                                text("cpu") + "K\x04tQ" + integer(0) + tuple({2}) + tuple({1}) +
                                "tRs";
  EXPECT_THAT(torch_refusal(old_file(quantised)),
              HasSubstr("tensor 'w': expected a dense tensor with values, got a quantised tensor. "
                        "Save the values that it stands for: tensor.dequantize()."));
  // What is not read need not be readable.
  const std::string beside = "}(" + text("state_dict") + one_tensor(0, {2}, {1}) + text("masks") +
                             "}" + made_by("_rebuild_sparse_tensor") + "su";
  EXPECT_EQ(torch_refusal(old_file(beside)), "no error");
}

TEST(TorchFile, RefusesWhatIsNoStateDict) {
  EXPECT_THAT(torch_refusal(old_file("]", true)),
              HasSubstr("expected a state_dict of named tensors"));
  EXPECT_THAT(torch_refusal(old_file("}(" + text("a") + "N" + text("b") + "Nu", true)),
              HasSubstr("got the keys 'a', 'b'"));
  EXPECT_THAT(torch_refusal(pickle_of("}")),
              HasSubstr("expected a file of torch.save, got another pickle"));
  EXPECT_THAT(torch_refusal(torch_sample("compressed.pth")),
              HasSubstr("a compressed or encrypted entry"));
  std::string archive = torch_sample("state.pth");
  for (size_t at; (at = archive.find("data.pkl")) != std::string::npos;) archive[at] = 'D';
  EXPECT_THAT(
      torch_refusal(archive),
      HasSubstr("got a zip archive that torch.save did not write, of 'archive/Data.pkl' and"));
}

TEST(TorchFile, RefusesDamagedStreams) {
  for (const std::string& opcodes :
       {std::string("t"), std::string("R"), std::string("0"), std::string("Q"), std::string("(("),
        std::string("h\x07"), std::string("}(N") + "u", std::string("]N") + "s", std::string("i"),
        std::string("]Nb0"), std::string("ccollections\nOrderedDict\n]R"),
        std::string("ctorch._utils\n_rebuild_tensor_v2\n)R"), std::string("N\x85Q")}) {
    EXPECT_THAT(torch_refusal(old_file(opcodes)), HasSubstr("w.pth: a damaged pickle: "))
        << opcodes;
  }
}

TEST(TorchFile, RefusesEveryTruncatedFile) {
  for (const char* name : {"state.pth", "wrapped_old.pth"}) {
    const std::string content = torch_sample(name);
    for (size_t size = 4; size < content.size(); ++size) {
      EXPECT_NE(torch_refusal(content.substr(0, size)), "no error") << name << ' ' << size;
    }
  }
}

// A flipped bit may change numbers; it must not read beyond the file.
TEST(TorchFile, SurvivesEveryFlippedBit) {
  for (const char* name : {"wrapped.pth", "state_old.pth", "trainer_old.pth", "whole_old.pth"}) {
    std::string content = torch_sample(name);
    for (size_t bit = 0; bit < content.size() * 8; ++bit) {
      content[bit / 8] = static_cast<char>(content[bit / 8] ^ (1 << bit % 8));
      torch_refusal(content);
      content[bit / 8] = static_cast<char>(content[bit / 8] ^ (1 << bit % 8));
    }
  }
}

}  // namespace
}  // namespace whisker
