// Lists every visible file under a folder, sorted bytewise. A file is its path: links to files and
// folders are files and folders of their own. Loops of links end.
#pragma once

#include "data/files/decode_rules.h"

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
  std::string path;         ///< relative to the folder walked
  std::string reason;       ///< after a number: "hidden", "not in a class folder"
  std::string format = {};  ///< of an image in an unsupported format: "GIF"
};

struct WalkedFile {
  std::string path;  ///< relative to the folder walked, '/' between names
  uint64_t bytes = 0;
  int64_t modified_ns = 0;  ///< mtime or ctime, the later; nanoseconds since 1970
  int64_t written_ns = 0;   ///< mtime
  bool link = false;        ///< a symbolic link, or below a link to a folder
  // Set by take_images():
  bool deep = false;   ///< 16 bits per sample: PNG, or PGM and PPM with the maximum 65535
  bool alpha = false;  ///< PNG, WebP or BMP with an alpha channel or a transparent colour
};

struct FileWalk {
  std::vector<WalkedFile> files;  ///< sorted bytewise by path
  /// The own visible subfolders of `root` without runs, sorted bytewise.
  std::vector<std::string> folders;
  /// Hidden, broken links, sockets, links to folders above, runs.
  std::vector<SkippedFile> skipped;
  std::vector<SkippedFile> unreadable;  ///< folders that cannot be listed: OnUnreadable::list
};

enum class OnUnreadable : uint8_t { fail, list };

/// Walks `root`, without names that begin with a dot, folders that systems make for themselves and
/// folders of runs. A folder that cannot be read goes to `unreadable` or throws data; `what`
/// ("data.train") names it in the error.
FileWalk walk_files(const std::filesystem::path& root, std::string_view what,
                    OnUnreadable on_unreadable = OnUnreadable::fail, int rules = newest_data_rules);

/// Whether a visible name is a system's own folder: @eaDir, __MACOSX, lost+found.
bool is_system_folder(std::string_view name);

/// What becomes of transparent pixels; follows "6 have".
inline constexpr const char* alpha_note = " an alpha channel: transparent pixels become white";

/// "48 of 60 files used (12 are links): 8 TIFF (not supported), 4 hidden; 6 have an alpha channel:
/// transparent pixels become white"; "" when all are used and none is a link or has one.
std::string use_of_files(int64_t used, int64_t links, std::span<const SkippedFile> skipped,
                         int64_t alpha = 0);

/// The entry of `path` below `root`; nothing unless it is a file.
std::optional<WalkedFile> find_file(const std::filesystem::path& root, const std::string& path);

/// Whether the name has the extension of a supported image format.
bool has_image_name(std::string_view name, int rules = newest_data_rules);

/// Names for messages: 'a', 'b' and, beyond the first eight, how many more.
std::string quoted_list(std::span<const std::string> names);

}  // namespace whisker
