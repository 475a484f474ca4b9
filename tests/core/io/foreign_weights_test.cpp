// Files that are no weights are called by their names.
#include "core/io/foreign_weights.h"

#include "torch_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::HasSubstr;

std::string foreign_refusal(const std::string& content) {
  const TemporaryFolder folder;
  put_file(folder / "w", content);
  const std::string message =
      test::message_of(ErrorKind::checkpoint, [&] { open_weights(folder / "w"); });
  return message.substr(std::min(message.size(), (folder / "w").string().size()));
}

TEST(ForeignWeights, AreCalledByTheirNames) {
  const std::string hdf5("\x89HDF\r\n\x1a\n\0\0\0\0", 12);
  const std::string zeros(600, '\0');
  const struct {
    std::string content;
    const char* what;
    const char* remedy;
  } rows[] = {
      {torch_sample("script.pt"), "a TorchScript program", "torch.jit.load(FILE).state_dict()"},
      {torch_sample("network.keras"), "a Keras network (.keras)", "safetensors.numpy.save_file"},
      {hdf5 + zeros + "keras_version" + zeros, "a Keras network or its weights (HDF5, .h5)",
       "safetensors.numpy.save_file"},
      {hdf5 + zeros, "an HDF5 file", "safetensors.numpy.save_file"},
      {std::string(512, '\0') + hdf5 + zeros, "an HDF5 file", "safetensors.numpy.save_file"},
      {"\x08\x07\x12\x07pytorch\x1a\x05"
       "1.9.0" +
           zeros,
       "an ONNX network", "exported from"},
      {std::string("\x1c\0\0\0TFL3", 8) + zeros, "a TensorFlow Lite network", "its variables"},
      {std::string("\x1f\x8b\x08\0", 4) + zeros, "a gzip archive", "Unpack it"},
      {std::string(257, '\0') + "ustar" + zeros, "a tar archive", "Unpack it"},
      {"\x93NUMPY\x01" + zeros, "a NumPy array (.npy)", "save_file"},
      {"GGUF" + zeros, "a GGUF file", "save_file"},
      {"MATLAB 5.0 MAT-file" + zeros, "a MATLAB file", "save_file"},
      {"BZh91AY" + zeros, "a bzip2 archive", "Unpack it"},
      {std::string("\xfd"
                   "7zXZ\0",
                   6) +
           zeros,
       "an xz archive", "Unpack it"},
      {"\x28\xb5\x2f\xfd" + zeros, "a Zstandard archive", "Unpack it"},
      {"7z\xbc\xaf\x27\x1c" + zeros, "a 7z archive", "Unpack it"},
      {"Rar!\x1a\x07" + zeros, "a RAR archive", "Unpack it"},
  };
  for (const auto& row : rows) {
    const std::string message = foreign_refusal(row.content);
    EXPECT_THAT(message, HasSubstr(std::string(": expected a safetensors file or a zip file of "
                                               "torch.save, got ") +
                                   row.what));
    EXPECT_THAT(message, HasSubstr(row.remedy)) << row.what;
  }
}

// ONNX's first byte alone makes no ONNX file: its version is 1 to 64.
TEST(ForeignWeights, OnnxBeginsWithItsVersion) {
  const auto with_version = [](char version) {
    return foreign_refusal(std::string("\x08") + version + "\x12\x07pytorch\x1a\x05" + "1.9.0" +
                           std::string(600, '\0'));
  };
  for (const char version : {'\x01', '\x40'}) {
    EXPECT_THAT(with_version(version), HasSubstr("an ONNX network")) << int{version};
  }
  for (const char version : {'\x00', '\x41'}) {
    EXPECT_THAT(with_version(version), testing::Not(HasSubstr("ONNX"))) << int{version};
  }
}

// The length of a header may be any number, those of other formats' first bytes as well.
TEST(ForeignWeights, AreNoSafetensorsFiles) {
  for (const uint64_t length : {uint64_t{0x8b1f}, uint64_t{0x120708}}) {
    std::string header = "{\"__metadata__\":{}}";
    header.resize(length, ' ');
    std::string content(8, '\0');
    std::memcpy(content.data(), &length, 8);
    const std::string file = content + header;
    EXPECT_NO_THROW(refuse_foreign_weights(file, "w"));
  }
}

}  // namespace
}  // namespace whisker
