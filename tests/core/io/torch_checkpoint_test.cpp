// Which tensors of a checkpoint are read, what is said of the rest, and how much memory any pickle
// may take.
#include "core/io/crc32.h"
#include "core/io/safetensors.h"
#include "core/io/zip.h"
#include "tests/support/peak_memory.h"
#include "torch_samples.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> names_in(const SafetensorsFile& file) {
  std::vector<std::string> names;
  for (const SafetensorsTensor& tensor : file.tensors()) names.push_back(tensor.name);
  return names;
}

TEST(TorchCheckpoint, ReadsTheWeightsAndNamesWhatIsLeftOut) {
  for (const char* name : {"trainer.pth", "trainer_old.pth"}) {
    const std::string content = torch_sample(name);
    const SafetensorsFile file = read_torch(content);
    EXPECT_THAT(names_in(file), ElementsAre("conv.bias", "conv.weight"));
    EXPECT_THAT(values_of<float>(file, "conv.bias"), ElementsAre(1, 2));
    EXPECT_THAT(
        file.notes(),
        ElementsAre("w.pth: 2 tensors of 'model' are read; left out: 'epoch', 'model_ema' (3 "
                    "tensors: --weights-key model_ema), 'best', 'kind', 'optimizer', 'args', "
                    "'history', 'labels'; objects are not built: argparse.Namespace, "
                    "collections.defaultdict, datetime.datetime, pathlib.PurePosixPath, "
                    "trainers.Kind"));
  }
  const std::string plain = torch_sample("state.pth");
  EXPECT_THAT(read_torch(plain).notes(), IsEmpty());
}

TEST(TorchCheckpoint, AKeyChoosesTheWeights) {
  const std::string content = torch_sample("trainer.pth");
  EXPECT_THAT(names_in(read_torch(content, "model_ema")),
              ElementsAre("module.conv.bias", "module.conv.weight", "n_averaged"));
  EXPECT_THAT(read_torch(content, "model_ema").notes()[0],
              HasSubstr("3 tensors of 'model_ema' are read; left out: 'epoch', 'model' (2 tensors: "
                        "--weights-key model)"));
  EXPECT_THAT(names_in(read_torch(content, "model_ema.module")),
              ElementsAre("conv.bias", "conv.weight"));
  EXPECT_THAT(read_torch(content, "model_ema.module").notes()[0],
              HasSubstr("2 tensors of 'model_ema.module' are read; left out: 1 others, 'epoch', "
                        "'model' (2 tensors: --weights-key model)"));
  EXPECT_THAT(names_in(read_torch(content, "conv")), ElementsAre("bias", "weight"));
  for (const char* key :
       {"ema", "models", "model.con", "model_ema.module.conv.weight.x", "epoch"}) {
    EXPECT_THAT(torch_refusal(content, key, ErrorKind::usage),
                HasSubstr("w.pth: --weights-key: expected a key, or the words before a dot"))
        << key;
  }
}

TEST(TorchCheckpoint, RefusesToChooseAmongEqualsAndNamesThem) {
  const std::string content = torch_sample("parts.pth");
  EXPECT_THAT(torch_refusal(content),
              HasSubstr("w.pth: its weights may be 'encoder' (1 tensors) or 'decoder' (1 tensors): "
                        "--weights-key KEY (init.key in a configuration) says which."));
  EXPECT_THAT(values_of<float>(read_torch(content, "decoder"), "w"), ElementsAre(2));
}

TEST(TorchCheckpoint, ReadsTheStateOfAWholeModule) {
  const std::string content = torch_sample("whole.pth");
  const SafetensorsFile file = read_torch(content);
  EXPECT_THAT(names_in(file), ElementsAre("conv.weight", "seen"));
  EXPECT_THAT(file.notes(), ElementsAre("w.pth: 2 tensors are read; objects are not built: "
                                        "torch.nn.modules.module.Module"));
}

// Of networks whose tensors are equal.
TEST(TorchCheckpoint, TheModulesOfAStateDictTellItsLibrary) {
  const auto short_text = [](const std::string& value) {
    return std::string("\x8c") + static_cast<char>(value.size()) + value;
  };
  const std::string tensor = "ctorch._utils\n_rebuild_tensor_v2\n((" + short_text("storage") +
                             "ctorch\nFloatStorage\n" + short_text("0") + short_text("cpu") +
                             "K\x04tQK\x01K\x02\x85K\x01\x85\x89}tR";
  const auto library = [&](const std::string& module) {
    const std::string state = "ccollections\nOrderedDict\n)R" + short_text("w") + tensor + "s}" +
                              short_text("_metadata") + "ccollections\nOrderedDict\n)R" +
                              short_text(module) + "}ssb";
    const std::string wrapped = "}" + short_text("model") + state + "s";
    EXPECT_EQ(read_torch(old_file(wrapped)).library(), read_torch(old_file(state)).library());
    return read_torch(old_file(state)).library();
  };
  EXPECT_EQ(library("global_pool"), "timm");
  EXPECT_EQ(library("module.global_pool"), "timm");
  EXPECT_EQ(library("avgpool"), "torchvision");
  EXPECT_EQ(library("features.relu0"), "torchvision");
  EXPECT_EQ(library("conv1"), "");
}

TEST(TorchCheckpoint, HonoursTheNegativeBit) {
  const std::string content = torch_sample("negative.pth");
  const SafetensorsFile file = read_torch(content);
  EXPECT_THAT(values_of<float>(file, "w"), ElementsAre(-1, 2));
  EXPECT_THAT(values_of<uint16_t>(file, "h"), ElementsAre(0x3c00));  // 1 in f16
  EXPECT_THAT(file.notes(),
              ElementsAre(HasSubstr("1 of 2 tensors have PyTorch's negative bit: their stored "
                                    "values are negated")));
}

TEST(TorchCheckpoint, AKeyOfSafetensorsIsAPrefix) {
  const TemporaryFolder folder;
  std::vector<SafetensorsEntry> entries;
  const std::vector<float> values = {1, 2};
  for (const char* name : {"ema.fc.weight", "emal", "net.fc.weight"}) {
    entries.push_back({.name = name, .dtype = DType::f32, .shape = {2}, .bytes = [&] {
                         return std::as_bytes(std::span(values));
                       }});
  }
  write_safetensors(folder / "w.safetensors", {}, std::move(entries));
  EXPECT_THAT(names_in(open_weights(folder / "w.safetensors", "ema")), ElementsAre("fc.weight"));
  EXPECT_THAT(open_weights(folder / "w.safetensors", "ema").notes(),
              ElementsAre(HasSubstr("1 tensors of 'ema' are read; left out: 2 others")));
  EXPECT_THAT(
      test::message_of(ErrorKind::usage, [&] { open_weights(folder / "w.safetensors", "em"); }),
      HasSubstr("--weights-key: expected the words before a dot"));
}

TEST(ZipArchive, VerifiesTheChecksumOfWhatIsRead) {
  EXPECT_EQ(crc32(std::as_bytes(std::span(std::string_view("123456789")))), 0xcbf43926u);
  EXPECT_EQ(crc32({}), 0u);
  EXPECT_EQ(crc32c(std::as_bytes(std::span(std::string_view("123456789")))), 0xe3069283u);
  std::string content = torch_sample("state.pth");
  const auto first = content.find("archive/data/0");
  const size_t at = first + 14 + 8;  // a float of the storage
  content[at] = static_cast<char>(content[at] ^ 1);
  const std::string message = torch_refusal(content);
  EXPECT_THAT(message, HasSubstr("a damaged zip archive: entry 'archive/data/0' has the CRC-32"));
  EXPECT_THAT(message, HasSubstr("torch.serialization.set_crc32_options(False)"));
  content = torch_sample("state.pth");
  const size_t opcode = content.find("weight");
  content[opcode] = 'W';
  EXPECT_THAT(torch_refusal(content), HasSubstr("entry 'archive/data.pkl' has the CRC-32"));
}

TEST(ZipArchive, RefusesTwoEntriesOfOneNameAndTwoPickles) {
  EXPECT_THAT(torch_refusal(torch_sample("twice.pth")),
              HasSubstr("a damaged zip archive: two entries are named 'a/data.pkl'"));
  EXPECT_THAT(
      torch_refusal(torch_sample("two.pth")),
      HasSubstr("with one data.pkl as torch.save writes, got 'a/data.pkl' and 'b/data.pkl'"));
}

// Reading takes at most the file's size and 4 MiB beside the file itself; the heap's own overhead
// and the program's pages come on top.
TEST(TorchCheckpoint, NoPickleTakesMoreMemoryThanPromised) {
  if (is_instrumented) GTEST_SKIP() << "memory is not what it is";
  constexpr size_t file_bytes = 4'700'000;
  const auto filled = [&](const std::string& begin, const std::string& unit) {
    std::string opcodes = begin;
    while (opcodes.size() < file_bytes) opcodes += unit;
    return old_file(opcodes, true);
  };
  const std::string tuple = "(K\x01K\x01K\x01t", tensor = "ctorch\nSize\n";
  for (const std::string& content :
       {filled("", "]"), filled("", "}"), filled("", "N"), filled("", "("), filled("", "]N0"),
        filled("", tuple), filled("", "K\x01"), filled("](", "K\x01"), filled("", "]Na"),
        filled("}(",
               "\x8c\x01"
               "aK\x01"),
        filled("N", "\x94"), filled("", "]\x94"), filled(tensor, ")\x81"), filled("", "ca\nb\n"),
        filled("N", "2")}) {
    int64_t growth = peak_growth_bytes([&] {
      try {
        read_torch(content);
      } catch (const Error&) {
      }
    });
    EXPECT_LT(growth, static_cast<int64_t>(content.size()) + (8 << 20)) << content.substr(60, 40);
  }
}

}  // namespace
}  // namespace whisker
