// Lists every visible file under a folder, sorted bytewise. Links are followed, but each (device,
// inode) is visited once, so that loops end and nothing counts twice.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// A skipped file, and why.
struct SkippedFile {
  std::string path;  ///< relative to the folder walked
  std::string reason;
  std::string format = {};  ///< of an image in an unsupported format: "GIF"
};

struct WalkedFile {
  std::string path;  ///< relative to the folder walked, '/' between names
  uint64_t bytes = 0;
  int64_t modified_ns = 0;  ///< modification time, nanoseconds since 1970
};

struct FileWalk {
  std::vector<WalkedFile> files;        ///< sorted bytewise by path
  std::vector<std::string> folders;     ///< its visible subfolders without runs, sorted bytewise
  std::vector<SkippedFile> skipped;     ///< broken links, sockets, links to visited files, runs
  std::vector<SkippedFile> unreadable;  ///< folders that cannot be listed: OnUnreadable::list
};

enum class OnUnreadable : uint8_t { fail, list };

/// Walks `root`, without names that begin with a dot and folders of runs. Real files and folders
/// take precedence over links to them. A folder that cannot be read goes to `unreadable` or throws
/// data; `what` ("data.train") names it in the error.
FileWalk walk_files(const std::filesystem::path& root, std::string_view what,
                    OnUnreadable on_unreadable = OnUnreadable::fail);

/// Throws data, naming `what`, when `root` holds train/ and val/ instead of class folders.
void refuse_parent_of_splits(const std::filesystem::path& root, std::string_view what,
                             const FileWalk& walk);

/// The entry of `path` below `root`; nothing unless it is a file.
std::optional<WalkedFile> find_file(const std::filesystem::path& root, const std::string& path);

/// Whether the name has the extension of a JPEG, PNG, BMP or WebP file.
bool has_image_name(std::string_view name);

/// Names for messages: 'a', 'b' and, beyond the first eight, how many more.
std::string quoted_list(std::span<const std::string> names);

}  // namespace whisker
