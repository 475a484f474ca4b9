// Every visible file under a folder, in the order of its bytes, whatever its name holds. Links are
// followed, but each (device, inode) is visited once, so that loops end and nothing counts twice.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// A file left out, and why.
struct SkippedFile {
  std::string path;  ///< relative to the folder walked
  std::string reason;
};

struct WalkedFile {
  std::string path;  ///< relative to the folder walked, '/' between names
  uint64_t bytes = 0;
};

struct FileWalk {
  std::vector<WalkedFile> files;     ///< sorted bytewise by path
  std::vector<std::string> folders;  ///< the folder's own visible subfolders, sorted bytewise
  std::vector<SkippedFile> skipped;  ///< broken links, sockets, links to what was visited already
  std::vector<SkippedFile> unreadable;  ///< folders that cannot be listed, if those are no error
};

enum class OnUnreadable : uint8_t { fail, list };

/// Walks `root`, leaving out names that begin with a dot. Real files and folders come before links
/// to them. When a folder cannot be read it throws data, where `what` names it ("data.train"), or
/// lists it among the unreadable and goes on.
FileWalk walk_files(const std::filesystem::path& root, std::string_view what,
                    OnUnreadable on_unreadable = OnUnreadable::fail);

/// Whether the name ends as those of JPEG, PNG and BMP files do.
bool has_picture_name(std::string_view name);
/// Whether the name of the file `path` below `root` says so, or else its first bytes do.
bool is_picture(const std::filesystem::path& root, const std::string& path);

/// A name for messages: control characters and bytes that are no UTF-8 as \xNN.
std::string printable(std::string_view name);
/// Names for messages: 'a', 'b' and, beyond the first eight, how many more.
std::string quoted_list(std::span<const std::string> names);

}  // namespace whisker
