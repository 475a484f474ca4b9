// A recording comes back from its file as it was, and no other file is taken for one.
#include "core/trace/recording_file.h"

#include "core/io/safetensors_stream.h"
#include "core/trace/step_frames.h"
#include "core/trace/step_recorder.h"
#include "tests/core/trace/tape_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using ::testing::HasSubstr;

Recording small_and_large() {
  const Tensor x = rand_normal({80, 60}, 0, 1, 3, 1).set_requires_grad();  // over 4,096 elements
  const Tensor w = rand_normal({60, 2}, 0, 1, 3, 2).set_requires_grad("w");
  const Tensor b = rand_normal({2}, 0, 1, 3, 3).to(DType::bf16).detach().set_requires_grad("b");
  const Tensor target = from_vector({0, 1}, {2}, {.dtype = DType::i64});
  StepRecorder recorder({.values = true});
  recorder.name(x, "x\nwith a break");
  const Tensor product = matmul(x, w);
  const Tensor y = product + cast(b, DType::f32);
  const Tensor entropy = cross_entropy(slice(y, 0, 0, 2), target);
  backward(entropy + sum(relu(x * 2)));
  Recording recording = recorder.recording();
  recording.title = "a test";
  return recording;
}

std::vector<std::byte> file_of(const Recording& recording, const std::string& key = "",
                               const std::string& value = "") {
  RecordingFile file = RecordingFile::of(recording);
  if (!key.empty()) file.metadata[key] = value;
  std::vector<std::byte> bytes;
  write_safetensors(
      [&](std::span<const std::byte> more) { bytes.insert(bytes.end(), more.begin(), more.end()); },
      "test", file.metadata, std::move(file.entries));
  return bytes;
}

Recording read_back(const std::vector<std::byte>& bytes) {
  return read_recording(SafetensorsFile::parse(bytes, "t.safetensors"));
}

TEST(RecordingFile, ComesBackAsItWas) {
  Recording before = small_and_large();
  before.ceilings = {.tflops = 0.5, .gb_per_s = 20, .overhead_ms = 1e-3};
  const Recording after = read_back(file_of(before));
  EXPECT_EQ(recording_json(after), recording_json(before));
  ASSERT_EQ(after.entries.size(), before.entries.size());
  for (size_t i = 0; i < before.entries.size(); ++i) {
    const TapeEntry &a = before.entries[i], &b = after.entries[i];
    EXPECT_EQ(a.number, b.number);
    ASSERT_EQ(a.outputs.size(), b.outputs.size());
    for (size_t k = 0; k < a.outputs.size(); ++k) {
      EXPECT_EQ(a.outputs[k].value.all, b.outputs[k].value.all);
      EXPECT_EQ(a.outputs[k].value.statistics, b.outputs[k].value.statistics);
      EXPECT_EQ(a.outputs[k].gradient.all, b.outputs[k].gradient.all);
    }
    ASSERT_EQ(a.given.size(), b.given.size());
    for (size_t k = 0; k < a.given.size(); ++k) EXPECT_EQ(a.given[k].sum.all, b.given[k].sum.all);
  }
  EXPECT_EQ(StepFrames(before).text(1), StepFrames(after).text(1));
  EXPECT_THAT(recording_json(after), HasSubstr("\"example\":\"y["));
}

TEST(RecordingFile, OtherFilesAreRefused) {
  const Recording recording = small_and_large();
  const auto message = [&](const std::string& key, const std::string& value) {
    return test::message_of(ErrorKind::checkpoint,
                            [&] { read_back(file_of(recording, key, value)); });
  };
  EXPECT_EQ(message("format", "pt"),
            "t.safetensors: expected a recording of whisker study record, got another safetensors "
            "file.");
  EXPECT_THAT(message("version", "3"), HasSubstr("expected version 1 or 2 of the format, got '3'"));
  EXPECT_EQ(message("version", "1"), "no error");
  EXPECT_THAT(message("recording", "{"), HasSubstr("t.safetensors"));
  EXPECT_THAT(
      message("recording", "{\"network\":\"\",\"beside\":0,\"beside_ms\":0,\"entries\":[]}"),
      HasSubstr("expected 1 to 65536 entries, got 0"));
}

TEST(RecordingFile, EveryIndexAndShapeIsChecked) {
  const Recording recording = small_and_large();
  const std::string json = recording_json(recording);
  const auto message = [&](const std::string& from, const std::string& to) {
    std::string changed = json;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    return test::message_of(ErrorKind::checkpoint,
                            [&] { read_back(file_of(recording, "recording", changed)); });
  };
  EXPECT_NE(message("\"inputs\":[0,1]", "\"inputs\":[0,7]"), "no error");
  EXPECT_NE(message("\"input_outputs\":[0,0]", "\"input_outputs\":[0,1]"), "no error");
  EXPECT_THAT(message("\"input_positions\":[0,1]", "\"input_positions\":[0]"),
              HasSubstr("as many inputs"));
  EXPECT_THAT(message("\"input_examples\":[", "\"input_examples\":[\"one\","),
              HasSubstr("as many input_examples as inputs"));
  EXPECT_THAT(message("\"shape\":[60,2]", "\"shape\":[2,60]"), HasSubstr("expected f32 (2,60)"));
  EXPECT_THAT(message("\"shape\":[60,2]", "\"shape\":[4611686018427387904,4]"),
              HasSubstr("t.safetensors"));
  EXPECT_THAT(message("\"dtype\":\"f32\"", "\"dtype\":\"f31\""), HasSubstr("'f31'"));
  EXPECT_THAT(message("\"kind\":\"leaf\"", "\"kind\":\"root\""), HasSubstr("'root'"));
  EXPECT_NE(message("\"bytes\":0", "\"bytes\":-1"), "no error");
  EXPECT_THAT(message("\"given\":[{", "\"given\":[],\"gaven\":[{"), HasSubstr("tensors"));
}

TEST(RecordingFile, ACutFileIsRefused) {
  const std::vector<std::byte> bytes = file_of(small_and_large());
  for (size_t size = 0; size < bytes.size(); size += 97) {
    const std::vector<std::byte> cut(bytes.begin(),
                                     bytes.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_NE(test::message_of(ErrorKind::checkpoint, [&] { read_back(cut); }), "no error") << size;
  }
}

}  // namespace
}  // namespace whisker
