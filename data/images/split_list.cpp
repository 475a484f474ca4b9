#include "data/images/split_list.h"

#include "core/error.h"
#include "core/io/file.h"
#include "core/io/text.h"
#include "data/files/csv.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <ranges>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <sys/stat.h>

namespace whisker {
namespace {

namespace fs = std::filesystem;

constexpr size_t most_bytes = size_t{1} << 31;
const std::vector<std::string> columns = {"path", "label", "split", "bytes"};

// Device, inode, bytes and modification time: some file systems repeat inode numbers.
using FileId = std::tuple<dev_t, ino_t, off_t, time_t, int64_t>;

// Zeros for what is not there.
FileId id_of(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec};
}

bool same_content(const fs::path& a, const fs::path& b) {
  try {
    return read_file(a, most_bytes, ErrorKind::data) == read_file(b, most_bytes, ErrorKind::data);
  } catch (const Error&) {
    return false;  // what cannot be read is reported elsewhere
  }
}

}  // namespace

std::string split_csv(const ImageFolder& train, const ImageFolder& val) {
  std::string text = fmt::format("{}\n", fmt::join(columns, ","));
  for (const auto& [folder, split] : {std::pair{&train, "train"}, std::pair{&val, "val"}}) {
    for (const ImageFile& file : folder->files) {
      fmt::format_to(std::back_inserter(text), "{},{},{},{}\n", csv_field(file.path),
                     csv_field(folder->classes[static_cast<size_t>(file.label)]), split,
                     file.bytes);
    }
  }
  return text;
}

std::vector<SplitEntry> read_split(const fs::path& file) {
  const std::string name = printable(file.string());
  try {
    std::vector<CsvRow> rows = parse_csv(read_file(file, most_bytes, ErrorKind::checkpoint), name);
    if (rows.empty() || rows.front().fields != columns) {
      fail(ErrorKind::checkpoint, "{}: expected the columns {} in the first row", name,
           fmt::join(columns, ", "));
    }
    std::vector<SplitEntry> split;
    for (CsvRow& row : rows | std::views::drop(1)) {
      SplitEntry entry{.path = csv_text(row.fields[0]),
                       .label = csv_text(row.fields[1]),
                       .split = std::move(row.fields[2])};
      check_listed_path(row, entry.path, name);
      const std::string& bytes = row.fields[3];
      const char* end = bytes.data() + bytes.size();
      const auto [stop, error] = std::from_chars(bytes.data(), end, entry.bytes);
      const bool known = entry.split == "train" || entry.split == "val";
      if (!known || error != std::errc() || stop != end) {
        fail(ErrorKind::checkpoint, "{}:{}: expected train or val and a size in bytes, got {}",
             name, row.line, quoted_list(std::vector<std::string>{entry.split, bytes}));
      }
      split.push_back(std::move(entry));
    }
    return split;
  } catch (const Error& error) {
    fail(ErrorKind::checkpoint, "{}", error.what());
  }
}

int64_t count_trained(const std::vector<SplitEntry>& split, const fs::path& root,
                      const ImageFolder& images) {
  std::set<FileId> there;
  std::map<std::string_view, const SplitEntry*> by_path;
  for (const SplitEntry& entry : split) {
    if (entry.split != "train") continue;
    there.insert(id_of(root / entry.path));
    by_path.emplace(entry.path, &entry);
  }
  there.erase(FileId());
  const auto is_copy = [&](const fs::path& path, uint64_t bytes) {
    const std::string text = path.generic_string();
    for (size_t begin = 0; begin != std::string::npos;) {
      const auto found = by_path.find(std::string_view(text).substr(begin));
      if (found != by_path.end() && found->second->bytes == bytes) {
        const fs::path original = root / found->second->path;
        if (id_of(original) == FileId() || same_content(original, path)) return true;
      }
      const size_t slash = text.find('/', begin);
      begin = slash == std::string::npos ? slash : slash + 1;
    }
    return false;
  };
  return std::ranges::count_if(images.files, [&](const ImageFile& file) {
    const fs::path path = images.root / file.path;
    return there.contains(id_of(path)) || is_copy(path, file.bytes);
  });
}

}  // namespace whisker
