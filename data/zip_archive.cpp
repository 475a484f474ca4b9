// libzip behind RAII.
#include "data/zip_archive.h"

#include "core/error.h"
#include "core/io/text.h"
#include "data/file_walk.h"

#include <algorithm>
#include <system_error>

#include <zip.h>

namespace whisker {

struct ZipArchive::Handle {
  zip_t* zip = nullptr;
  ~Handle() {
    if (zip != nullptr) zip_discard(zip);
  }
};

ZipArchive::ZipArchive(const std::filesystem::path& path, const ZipLimits& limits)
    : handle_(std::make_unique<Handle>()), name_(printable(path.string())), limits_(limits) {
  int code = 0;
  handle_->zip = zip_open(path.c_str(), ZIP_RDONLY, &code);
  if (handle_->zip == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    fail(ErrorKind::data, "{}: not a readable zip archive: {}.", name_, reason);
  }
  if (limits_.max_total_bytes == 0) {
    std::error_code unknown;
    const auto size = static_cast<uint64_t>(std::filesystem::file_size(path, unknown));
    limits_.max_total_bytes = (unknown ? 0 : 64 * size) + (uint64_t{1} << 30);
  }
  const auto count = static_cast<uint64_t>(zip_get_num_entries(handle_->zip, 0));
  if (count > limits_.max_files) {
    fail(ErrorKind::data, "{}: expected at most {} files in the archive, it lists {}.", name_,
         limits_.max_files, count);
  }
  for (uint64_t index = 0; index < count; ++index) {
    zip_stat_t info;
    zip_stat_init(&info);
    if (zip_stat_index(handle_->zip, index, ZIP_FL_ENC_RAW, &info) != 0 ||
        (info.valid & ZIP_STAT_NAME) == 0 || (info.valid & ZIP_STAT_SIZE) == 0) {
      fail(ErrorKind::data, "{}: entry {} of the archive's list is damaged.", name_, index);
    }
    std::string name = info.name;
    if (!name.ends_with('/')) entries_.push_back({index, std::move(name), info.size});
  }
}

ZipArchive::~ZipArchive() = default;

std::string ZipArchive::read(const ZipEntry& entry) {
  constexpr size_t block = size_t{1} << 20;
  const std::string shown = printable(entry.name);
  if (entry.bytes > limits_.max_file_bytes) {
    fail(ErrorKind::data, "{}: {} would be {}, more than the {} allowed.", name_, shown,
         human_bytes(entry.bytes), human_bytes(limits_.max_file_bytes));
  }
  total_bytes_ += entry.bytes;
  if (total_bytes_ > limits_.max_total_bytes) {
    fail(ErrorKind::data, "{}: the archive unpacks to more than the {} allowed.", name_,
         human_bytes(limits_.max_total_bytes));
  }
  const auto close = [](zip_file_t* file) { zip_fclose(file); };
  const std::unique_ptr<zip_file_t, decltype(close)> file(
      zip_fopen_index(handle_->zip, entry.index, 0), close);
  if (!file) {
    fail(ErrorKind::data, "{}: cannot unpack {}: {}.", name_, shown,
         zip_error_strerror(zip_get_error(handle_->zip)));
  }
  // Room is made as data arrive, and for one byte too many: reading up to the end is what makes
  // libzip compare the checksum.
  std::string content;
  while (content.size() <= entry.bytes) {
    const size_t begin = content.size();
    const size_t wanted = std::min<uint64_t>(block, entry.bytes + 1 - begin);
    content.resize(begin + wanted);
    const zip_int64_t got = zip_fread(file.get(), content.data() + begin, wanted);
    if (got < 0) {
      fail(ErrorKind::data, "{}: {} is damaged: {}.", name_, shown,
           zip_error_strerror(zip_file_get_error(file.get())));
    }
    content.resize(begin + static_cast<size_t>(got));
    if (got == 0) break;
  }
  if (content.size() != entry.bytes) {
    fail(ErrorKind::data, "{}: {} has another size than the archive says.", name_, shown);
  }
  return content;
}

}  // namespace whisker
