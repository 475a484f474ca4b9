// Records of an event file, byte by byte; what TensorBoard reads of a run is in
// tests/apps/tensorboard_test.py.
#include "train/loop/event_file.h"

#include "core/io/file.h"
#include "tests/support/temporary_folder.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char one : bytes) text += fmt::format("{:02x}", static_cast<uint8_t>(one));
  return text;
}

// Of TensorFlow's RecordWriter for the same data.
TEST(EventFile, RecordsAreFramed) {
  EXPECT_EQ(hex(tf_record("whisker")), "0700000000000000bbd79f11776869736b65720afe7a2b");
}

std::vector<std::string> records_in(const std::filesystem::path& folder) {
  std::vector<std::string> records;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry);
  std::ranges::sort(files);
  for (const auto& file : files) {
    std::string bytes = read_file(file, 1 << 20, ErrorKind::data);
    while (!bytes.empty()) {
      uint64_t size = 0;
      std::memcpy(&size, bytes.data(), sizeof size);
      const std::string data = bytes.substr(12, size);
      EXPECT_EQ(bytes.substr(0, size + 16), tf_record(data));
      bytes.erase(0, size + 16);
      records.push_back(data.substr(9));  // behind the time
    }
  }
  return records;
}

TEST(EventFile, MessagesHaveTheFieldsOfEvents) {
  const TemporaryFolder folder;
  {
    EventFile file(folder / "tensorboard", 301);
    file.scalar("loss/train", 300, 0.5);
    file.image("a", 1, 2, 3, "JPEG");
    const std::vector<double> limits = {1, 2}, counts = {3, 0};
    file.histogram("w", 1, {.count = 3, .limits = limits, .counts = counts});
  }
  const EventFile second(folder / "tensorboard", 401);  // of a resume within the same second
  const std::vector<std::string> records = records_in(folder / "tensorboard");
  ASSERT_EQ(records.size(), 7);
  EXPECT_EQ(records[0], std::string("\x10\x00\x1a\x0d"
                                    "brain.Event:2",
                                    17));
  EXPECT_EQ(hex(records[1]), "10ad023a020801");  // step 301, a session that starts
  EXPECT_EQ(hex(records[2]), "10ac022a130a110a0a" + hex("loss/train") + "150000003f");
  EXPECT_EQ(hex(records[3]), "10012a130a110a0161220c08021003180322044a504547");
  EXPECT_EQ(hex(records[4]).substr(0, 22), "10012a580a560a01772a51");
  EXPECT_TRUE(hex(records[4])
                  .ends_with("3210000000000000f03f0000000000000040"
                             "3a1000000000000008400000000000000000"));
  EXPECT_EQ(hex(records[6]), "1091033a020801");
}

}  // namespace
}  // namespace whisker
