// Iterative walk: first everything real, then the links met on the way.
#include "data/files/file_walk.h"

#include "core/error.h"
#include "core/io/text.h"
#include "core/work_progress.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <memory>
#include <set>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

namespace whisker {
namespace {

WalkedFile walked_file(std::string path, const struct stat& info) {
  // Unsigned: a time that a damaged file system invents may overflow.
  const uint64_t modified = static_cast<uint64_t>(info.st_mtim.tv_sec) * 1'000'000'000u +
                            static_cast<uint64_t>(info.st_mtim.tv_nsec);
  return {.path = std::move(path),
          .bytes = static_cast<uint64_t>(info.st_size),
          .modified_ns = static_cast<int64_t>(modified)};
}

class Walker {
 public:
  Walker(const std::filesystem::path& root, std::string_view what, OnUnreadable on_unreadable)
      : root_(root.string()), what_(what), on_unreadable_(on_unreadable) {}

  FileWalk walk() {
    visit_entry(AT_FDCWD, root_, "", true);
    walk_folders();
    // Links are sorted, so that the same tree has the same list on every machine.
    while (!links_.empty()) {
      std::vector<std::string> links = std::exchange(links_, {});
      std::sort(links.begin(), links.end());
      for (const std::string& link : links) {
        visit_entry(AT_FDCWD, full(link), link, true);
        walk_folders();
      }
    }
    const auto by_path = [](const auto& a, const auto& b) { return a.path < b.path; };
    std::sort(found_.files.begin(), found_.files.end(), by_path);
    std::sort(found_.skipped.begin(), found_.skipped.end(), by_path);
    std::sort(found_.folders.begin(), found_.folders.end());
    return std::move(found_);
  }

 private:
  std::string full(const std::string& path) const {
    return path.empty() ? root_ : root_ + "/" + path;
  }

  // `name` in the open folder `at` is `path` below the root. Looking up the last name only is a
  // fifth faster than the whole path, and a data set is walked before the first step.
  void visit_entry(int at, const std::string& name, const std::string& path, bool follow) {
    count_progress();
    struct stat info {};
    if (::fstatat(at, name.c_str(), &info, follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0) {
      found_.skipped.push_back({path, follow ? "link to nothing that can be read" : reason(errno)});
      return;
    }
    if (S_ISLNK(info.st_mode)) {
      links_.push_back(path);
    } else if (S_ISDIR(info.st_mode)) {
      if (first_visit(path, info)) folders_.push_back(path);
    } else if (S_ISREG(info.st_mode)) {
      if (first_visit(path, info)) {
        found_.files.push_back(walked_file(path, info));
      }
    } else {
      found_.skipped.push_back({path, "neither a file nor a folder"});
    }
  }

  bool first_visit(const std::string& path, const struct stat& info) {
    if (visited_.emplace(info.st_dev, info.st_ino).second) {
      if (S_ISDIR(info.st_mode) && !path.empty() && path.find('/') == std::string::npos) {
        found_.folders.push_back(path);
      }
      return true;
    }
    found_.skipped.push_back({path, "the same file or folder under a second name"});
    return false;
  }

  void walk_folders() {
    while (!folders_.empty()) {
      const std::string folder = std::move(folders_.back());
      folders_.pop_back();
      walk_folder(folder);
    }
  }

  void walk_folder(const std::string& folder) {
    const auto close = [](DIR* directory) { ::closedir(directory); };
    const std::unique_ptr<DIR, decltype(close)> directory(::opendir(full(folder).c_str()), close);
    if (!directory) return refuse(folder, errno);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(directory.get())) {
      if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    }
    if (errno != 0) refuse(folder, errno);
    std::sort(names.begin(), names.end());
    const std::string before = folder.empty() ? "" : folder + "/";
    for (const std::string& name : names) {
      visit_entry(::dirfd(directory.get()), name, before + name, false);
    }
  }

  void refuse(const std::string& folder, int error) {
    if (on_unreadable_ == OnUnreadable::fail) {
      fail(ErrorKind::data, "{}: cannot read the folder {}: {}.", what_, printable(full(folder)),
           reason(error));
    }
    found_.unreadable.push_back({folder, reason(error)});
  }

  static std::string reason(int error) { return std::generic_category().message(error); }

  std::string root_;
  std::string_view what_;
  OnUnreadable on_unreadable_;
  FileWalk found_;
  std::vector<std::string> folders_;  // still to be listed
  std::vector<std::string> links_;
  std::set<std::pair<dev_t, ino_t>> visited_;
};

}  // namespace

FileWalk walk_files(const std::filesystem::path& root, std::string_view what,
                    OnUnreadable on_unreadable) {
  return Walker(root, what, on_unreadable).walk();
}

void refuse_parent_of_splits(const std::filesystem::path& root, std::string_view what,
                             const FileWalk& walk) {
  static const std::set<std::string> splits = {"train", "val", "valid", "validation", "test"};
  const bool all_splits = std::ranges::all_of(
      walk.folders, [](const std::string& folder) { return splits.contains(folder); });
  if (walk.folders.size() < 2 || !all_splits) return;
  fail(ErrorKind::data,
       "{}: expected class folders in {}, got {}. Name one of these folders (data.train=..., "
       "data.val=...).",
       what, printable(root.string()), quoted_list(walk.folders));
}

std::optional<WalkedFile> find_file(const std::filesystem::path& root, const std::string& path) {
  struct stat info {};
  if (::stat((root / path).c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return walked_file(path, info);
}

bool has_image_name(std::string_view name) {
  constexpr std::array<std::string_view, 7> extensions = {".jpg", ".jpeg", ".jpe", ".jfif",
                                                          ".png", ".bmp",  ".webp"};
  std::string extension(name.substr(std::min(name.find_last_of("./"), name.size())));
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::find(extensions.begin(), extensions.end(), extension) != extensions.end();
}

std::string quoted_list(std::span<const std::string> names) {
  constexpr size_t shown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), shown); ++i) {
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", printable(names[i]));
  }
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

}  // namespace whisker
