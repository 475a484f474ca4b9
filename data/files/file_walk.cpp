// Iterative walk: first everything real, then the links met on the way.
#include "data/files/file_walk.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/lower_ascii.h"
#include "core/io/run_files.h"
#include "core/io/text.h"
#include "core/work_progress.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

namespace whisker {
namespace {

int64_t nanoseconds_of(const struct timespec& time) {
  // Unsigned: a time that a damaged file system invents may overflow.
  return static_cast<int64_t>(static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u +
                              static_cast<uint64_t>(time.tv_nsec));
}

WalkedFile walked_file(std::string path, const struct stat& info) {
  // Archives and copies set the time of modification, often to one for all; nobody sets that of
  // the status change.
  return {.path = std::move(path),
          .bytes = static_cast<uint64_t>(info.st_size),
          .modified_ns = std::max(nanoseconds_of(info.st_mtim), nanoseconds_of(info.st_ctim)),
          .written_ns = nanoseconds_of(info.st_mtim)};
}

class Walker {
 public:
  Walker(const std::filesystem::path& root, std::string_view what, OnUnreadable on_unreadable,
         int rules)
      : root_(root.string()), what_(what), on_unreadable_(on_unreadable), rules_(rules) {}

  FileWalk walk() {
    visit_entry(AT_FDCWD, root_, "", true);
    walk_folders();
    // Links are sorted, so that the same tree has the same list on every machine.
    while (!links_.empty()) {
      std::vector<Link> links = std::exchange(links_, {});
      std::ranges::sort(links, {}, &Link::path);
      for (const Link& link : links) {
        first_link_ = link.first;
        visit_entry(AT_FDCWD, full(link.path), link.path, true);
        walk_folders();
      }
    }
    const auto by_path = [](const auto& a, const auto& b) { return a.path < b.path; };
    std::sort(found_.files.begin(), found_.files.end(), by_path);
    std::sort(found_.skipped.begin(), found_.skipped.end(), by_path);
    std::sort(found_.folders.begin(), found_.folders.end());
    std::erase_if(found_.folders,
                  [this](const std::string& folder) { return hold_runs_.contains(folder); });
    return std::move(found_);
  }

 private:
  struct Link {
    std::string path;
    std::string first;  // the first link on the way to it, or itself
  };

  std::string full(const std::string& path) const {
    return path.empty() ? root_ : root_ + "/" + path;
  }

  // `name` in the open folder `at` is `path` below the root. Looking up the last name only is a
  // fifth faster than the whole path, and a data set is walked before the first step.
  void visit_entry(int at, const std::string& name, const std::string& path, bool follow) {
    count_progress();
    struct stat info {};
    if (::fstatat(at, name.c_str(), &info, follow ? 0 : AT_SYMLINK_NOFOLLOW) != 0) {
      found_.skipped.push_back({path, follow ? "broken link" : reason(errno)});
      return;
    }
    if (S_ISLNK(info.st_mode)) {
      links_.push_back({path, first_link_.empty() ? path : first_link_});
    } else if (S_ISDIR(info.st_mode)) {
      if (!path.empty() && is_run_folder(full(path))) {
        hold_runs_.insert(path.substr(0, path.find('/')));
        found_.skipped.push_back({path, "run folder"});
      } else if (rules_ < 3 ? first_visit(path, info) : !follow || is_followed(path)) {
        folders_.push_back(path);
        if (!path.empty() && path.find('/') == std::string::npos) found_.folders.push_back(path);
      }
    } else if (S_ISREG(info.st_mode)) {
      if (rules_ == 1 && !first_visit(path, info)) return;
      found_.files.push_back(walked_file(path, info));
      found_.files.back().link = !first_link_.empty();
    } else {
      found_.skipped.push_back({path, "neither file nor folder"});
    }
  }

  bool first_visit(const std::string& path, const struct stat& info) {
    if (visited_.emplace(info.st_dev, info.st_ino).second) return true;
    found_.skipped.push_back({path, S_ISDIR(info.st_mode) ? "link to a folder listed already"
                                                          : "second name of a file"});
    return false;
  }

  // A link is a folder of its own. Loops end: one to a folder that it lies in is not followed, and
  // of the links behind a link one to each folder is.
  bool is_followed(const std::string& path) {
    if (path.empty()) return true;
    std::error_code error;
    const std::filesystem::path target = std::filesystem::canonical(full(path), error);
    if (error) {
      found_.skipped.push_back({path, error.message()});
      return false;
    }
    bool in_target = false;
    for (size_t end = path.size(); end > 0 && !in_target;) {
      const size_t slash = path.rfind('/', end - 1);
      end = slash == std::string::npos ? 0 : slash;
      const auto above = std::filesystem::canonical(full(path.substr(0, end)), error);
      in_target = std::mismatch(target.begin(), target.end(), above.begin(), above.end()).first ==
                  target.end();
    }
    if (!in_target && followed_.emplace(first_link_, target.string()).second) return true;
    found_.skipped.push_back(
        {path, in_target ? "link to a folder that it lies in" : "link to a folder listed already"});
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
    while (const dirent* entry = ::readdir(directory.get())) names.emplace_back(entry->d_name);
    if (errno != 0) refuse(folder, errno);
    std::sort(names.begin(), names.end());
    const std::string before = folder.empty() ? "" : folder + "/";
    for (const std::string& name : names) {
      if (name == "." || name == "..") continue;
      if (name.starts_with('.')) {
        found_.skipped.push_back({before + name, "hidden"});
        continue;
      }
      if (rules_ > 1 && is_system_folder(name)) {
        found_.skipped.push_back({before + name, name + " (made by the system)"});
        continue;
      }
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
  int rules_;
  std::string first_link_;  // that led to what is visited; "": none
  FileWalk found_;
  std::vector<std::string> folders_;  // still to be listed
  std::vector<Link> links_;
  std::set<std::string> hold_runs_;  // subfolders of the root with runs in them
  std::set<std::pair<std::string, std::string>> followed_;  // links: the first, and a folder
  std::set<std::pair<dev_t, ino_t>> visited_;               // rules 1 and 2
};

}  // namespace

FileWalk walk_files(const std::filesystem::path& root, std::string_view what,
                    OnUnreadable on_unreadable, int rules) {
  return Walker(root, what, on_unreadable, rules).walk();
}

bool is_system_folder(std::string_view name) {
  constexpr std::array<std::string_view, 6> names = {
      "@eaDir", "__MACOSX", "lost+found", "$RECYCLE.BIN", "System Volume Information", "#recycle"};
  return std::ranges::find(names, name) != names.end();
}

std::string use_of_files(int64_t used, int64_t links, std::span<const SkippedFile> skipped,
                         int64_t alpha) {
  if (skipped.empty() && links == 0 && alpha == 0) return "";
  std::map<std::string, int64_t> counts;
  for (const SkippedFile& file : skipped) {
    ++counts[file.format.empty() ? file.reason : file.format + " (not supported)"];
  }
  std::string text =
      fmt::format("{} of {} used", used, counted(used + std::ssize(skipped), "file"));
  if (links > 0) text += fmt::format(" ({} {})", links, links == 1 ? "is a link" : "are links");
  std::vector<std::pair<std::string, int64_t>> reasons(counts.begin(), counts.end());
  std::ranges::stable_sort(reasons, std::greater(), [](const auto& one) { return one.second; });
  const char* separator = ": ";
  for (const auto& [reason, count] : reasons) {
    text += fmt::format("{}{} {}", std::exchange(separator, ", "), count, reason);
  }
  if (alpha > 0) text += fmt::format("; {} {}", alpha, alpha == 1 ? "has" : "have") + alpha_note;
  return text;
}

std::optional<WalkedFile> find_file(const std::filesystem::path& root, const std::string& path) {
  struct stat info {};
  if (::stat((root / path).c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  return walked_file(path, info);
}

bool has_image_name(std::string_view name, int rules) {
  constexpr std::array<std::string_view, 11> extensions = {
      ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".webp", ".ppm", ".pgm", ".pbm", ".pnm"};
  const std::span known = std::span(extensions).first(rules > 1 ? extensions.size() : 7);
  // Not file_ending(), which is "" of a file named ".png".
  const std::string extension =
      lower_ascii(name.substr(std::min(name.find_last_of("./"), name.size())));
  return std::ranges::find(known, extension) != known.end();
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
