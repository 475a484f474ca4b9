#include "data/files/path_finder.h"

#include "core/error.h"
#include "core/io/text.h"
#include "core/io/unicode.h"

#include <system_error>

namespace whisker {

namespace fs = std::filesystem;

const PathFinder::Entries& PathFinder::entries(const std::string& folder) {
  const auto [known, is_new] = known_.try_emplace(folder);
  if (!is_new) return known->second;
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(folder.empty() ? root_ : root_ / folder, error)) {
    const std::string name = entry.path().filename().string();
    known->second.emplace(to_nfc(name), name);
  }
  return known->second;
}

std::optional<std::string> PathFinder::find(const std::string& path) {
  std::error_code error;
  fs::path found;
  for (const fs::path& part : fs::path(path)) {
    const fs::path next = found / part;
    if (fs::exists(fs::symlink_status(root_ / next, error))) {
      found = next;
      continue;
    }
    const auto [first, last] = entries(found.string()).equal_range(to_nfc(part.string()));
    if (first == last) return std::nullopt;
    if (std::next(first) != last) {
      fail(ErrorKind::data,
           "{}: several entries of {} have this name in Unicode's normal form C, and none its "
           "bytes. Rename all but one.",
           excerpt(path), printable((root_ / found).string()));
    }
    found /= first->second;
  }
  return found.string();
}

}  // namespace whisker
