#include "core/io/torch_contents.h"

#include "core/io/foreign_weights.h"
#include "core/io/text.h"
#include "core/io/zip.h"

#include <cstring>
#include <map>
#include <utility>

namespace whisker {
namespace {

using Bytes = std::span<const std::byte>;
using Kind = TorchValue::Kind;

constexpr std::string_view pickle_name = "data.pkl";

// Entries of an archive, each checked once, when it is needed.
class ArchiveStorages final : public TorchStorages {
 public:
  ArchiveStorages(ZipArchive archive, std::string folder, Bytes file_bytes, std::string file)
      : archive_(std::move(archive)),
        folder_(std::move(folder)),
        file_(std::move(file)),
        left_(file_bytes.size()) {}

  Bytes bytes_of(const TorchStorage& storage) override {
    const auto known = checked_.find(storage.key);
    if (known != checked_.end()) return known->second;
    const auto found = archive_.read(fmt::format("{}data/{}", folder_, storage.key));
    if (!found) {
      fail(ErrorKind::checkpoint, "{}: the archive lacks its storage {}.", file_,
           excerpt(storage.key));
    }
    if (found->size() > left_) {
      fail(ErrorKind::checkpoint, "{}: a damaged zip archive: its entries overlap.", file_);
    }
    left_ -= found->size();
    return checked_.emplace(storage.key, *found).first->second;
  }

 private:
  ZipArchive archive_;
  std::string folder_, file_;
  size_t left_;  // of the file: entries of the same bytes would be checked again and again
  std::map<std::string_view, Bytes> checked_;
};

class StreamStorages final : public TorchStorages {
 public:
  explicit StreamStorages(std::map<std::string_view, Bytes> found) : found_(std::move(found)) {}

  Bytes bytes_of(const TorchStorage& storage) override {
    const auto found = found_.find(storage.key);
    return found == found_.end() ? Bytes() : found->second;
  }

 private:
  std::map<std::string_view, Bytes> found_;
};

// The name of the archive's one pickle, with its folder.
std::string_view pickle_in(const ZipArchive& archive, const std::string& file) {
  std::vector<std::string_view> found;
  for (const ZipArchive::Entry& entry : archive.entries()) {
    if (entry.name == pickle_name || entry.name.ends_with("/data.pkl")) found.push_back(entry.name);
  }
  if (found.size() > 1) {
    fail(ErrorKind::checkpoint,
         "{}: expected a zip archive with one data.pkl as torch.save writes, got {} and {}. Save "
         "each in a file of its own.",
         file, excerpt(found[0]), excerpt(found[1]));
  }
  refuse_foreign_archive(archive, file);  // such as one without
  return found.at(0);
}

}  // namespace

TorchContents read_torch_archive(Bytes bytes, const std::string& file, MemoryBudget& budget) {
  ZipArchive archive(bytes, file);
  const std::string_view pickle = pickle_in(archive, file);
  std::string folder(pickle.substr(0, pickle.size() - pickle_name.size()));
  const auto order = archive.read(folder + "byteorder");
  if (order && !order->empty() && (*order)[0] != std::byte{'l'}) {
    fail(ErrorKind::checkpoint, "{}: expected little-endian numbers, got big-endian ones.", file);
  }
  return {.pickle = read_torch_pickle(*archive.read(pickle), file, budget),
          .storages = std::make_unique<ArchiveStorages>(std::move(archive), std::move(folder),
                                                        bytes, file)};
}

// Streams: a magic number, a version, the machine, the values, the storages' keys; then of each
// storage its number of elements and its bytes.
TorchContents read_torch_streams(Bytes bytes, const std::string& file, MemoryBudget& budget) {
  constexpr std::string_view magic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
  size_t at = 0;
  const auto next = [&] {
    TorchPickle pickle = read_torch_pickle(bytes.subspan(at), file, budget);
    at += pickle.bytes;
    return pickle;
  };
  const TorchPickle first = next();
  if (first.values[first.root].text != magic) {
    fail(ErrorKind::checkpoint, "{}: expected a file of torch.save, got another pickle.", file);
  }
  next();
  const TorchPickle machine = next();
  const auto facts = machine.items_of(machine.root);
  for (size_t i = 0; i + 1 < facts.size(); i += 2) {
    const TorchValue& fact = machine.values[facts[i + 1]];
    if (machine.values[facts[i]].text == "little_endian" && fact.kind == Kind::boolean &&
        fact.integer == 0) {
      fail(ErrorKind::checkpoint, "{}: expected little-endian numbers, got big-endian ones.", file);
    }
  }
  TorchPickle pickle = next();
  const TorchPickle keys = next();
  std::map<std::string_view, uint64_t> element_bytes;
  for (const TorchStorage& storage : pickle.storages) {
    element_bytes.emplace(storage.key, storage.element_bytes);
  }
  const auto cut_short = [&]() {
    fail(ErrorKind::checkpoint, "{}: the file is cut short. Download or copy it again.", file);
  };
  std::map<std::string_view, Bytes> storages;
  for (const uint32_t index : keys.items_of(keys.root)) {
    const std::string_view key = keys.values[index].text;
    uint64_t count = 0;
    if (bytes.size() - at < sizeof(count)) cut_short();
    std::memcpy(&count, bytes.data() + at, sizeof(count));
    at += sizeof(count);
    const auto known = element_bytes.find(key);
    uint64_t size = 0;
    if (known == element_bytes.end() || __builtin_mul_overflow(count, known->second, &size)) {
      fail(ErrorKind::checkpoint, "{}: a damaged file: storage {} belongs to no tensor.", file,
           excerpt(key));
    }
    if (size > bytes.size() - at) cut_short();
    storages.emplace(key, bytes.subspan(at, size));
    at += size;
  }
  return {.pickle = std::move(pickle),
          .storages = std::make_unique<StreamStorages>(std::move(storages))};
}

}  // namespace whisker
