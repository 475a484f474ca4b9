// The inputs that a command line names: files, folders of images (walked, sorted), texts, and `-`
// for more of them on standard input, one per line, or for one image there.
#pragma once

#include "core/io/file.h"
#include "data/class_names.h"
#include "data/files/file_walk.h"
#include "data/files/path_finder.h"

#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// Lines of a file or pipe as they arrive.
class LineReader {
 public:
  /// Reads descriptor `fd`, which stays open; errors name it `name`. With `null`, a NUL ends a
  /// line.
  LineReader(int fd, std::string name, bool null = false)
      : fd_(fd), name_(std::move(name)), end_(null ? '\0' : '\n') {}

  /// Waits for the next line, without its end (LF or CRLF) and, the first, without UTF-8's byte
  /// order mark; nullopt at the end of the file. Throws data, also for a line of more than 16 MiB.
  std::optional<std::string> next();
  /// Whether next() would return a line without waiting.
  bool waiting();
  /// Before next(): whether the file begins as a JPEG, PNG, BMP, WebP, PBM, PGM or PPM does. Waits
  /// for the first line, or for as many bytes as tell. Throws data for an image of another format
  /// and other known files that are no text.
  bool begins_as_image();
  /// All that is left. Throws data for more than 2 GiB.
  std::string rest();

 private:
  [[noreturn]] void refuse_bytes(std::string_view line, bool utf16) const;
  bool fill(bool wait);
  bool begins_as_pnm_line() const;
  size_t line_end() const { return buffer_.find(end_, begin_); }

  int fd_;
  std::string name_;
  char end_;
  bool first_ = true;
  bool whole_ = false;  // one text without lines
  std::string buffer_;
  size_t begin_ = 0;  // of what is not yet returned
  bool ended_ = false;
};

/// `words` with the lines of standard input in place of each `-`.
std::vector<std::string> expand_stdin(const std::vector<std::string>& words, bool null);

/// How InputNames reads names.
struct InputOptions {
  bool images = false;  ///< folders are walked, and standard input may be an image
  bool null = false;    ///< names on standard input end with NUL
};

/// Names in order; those of standard input as they arrive.
class InputNames {
 public:
  /// The names are `words`, with the lines of standard input for `-`, also empty ones. Of images, a
  /// folder is replaced by its images, sorted bytewise (data/codec/unsupported_formats.h), and a
  /// standard input that begins as an image is one. Missing files and unreadable folders stay in
  /// the list, so that opening them reports the error.
  explicit InputNames(const std::vector<std::string>& words, const InputOptions& options = {});

  /// At most `most` names: waits for the first, then returns those available. Empty at the end.
  std::vector<std::string> next(size_t most);
  /// Number of names; unset when standard input decides.
  std::optional<size_t> count() const;
  /// The names that next() is to return, but for those of standard input.
  std::vector<std::string> known() const;
  /// The folders walked so far, as given.
  const std::vector<std::string>& folders() const { return folders_; }
  /// Paths of files in folders that are not images, so far.
  const std::vector<SkippedFile>& skipped() const { return skipped_; }
  /// What is used of the files in folders: see use_of_files().
  std::string use() const { return use_of_files(used_, links_, skipped_); }
  /// What was assumed of names, and of standard input, so far; "" for nothing.
  std::string note() const;
  /// `name`, or "-" for the image of standard input, whose name is that of a copy.
  std::string shown(const std::string& name) const {
    return !image_.empty() && name == image_ ? "-" : name;
  }

 private:
  std::vector<std::string> expanded(const std::string& name);
  std::string copied_image();

  InputOptions options_;
  PathFinder finder_{"."};
  NormalisedNames normalised_;
  bool decided_ = false;  // whether standard input is an image
  std::string image_;     // the copy's path
  size_t unused_ = 0;     // bytes behind that image
  FileDescriptor image_file_;
  std::deque<std::optional<std::string>> pending_;  // nullopt: the lines of standard input
  int64_t used_ = 0, links_ = 0;                    // files in folders
  std::vector<std::string> folders_;
  std::vector<SkippedFile> skipped_;
  LineReader lines_;
};

/// The folder that all files among `words` lie in; "" where there is none. Other words are folders
/// and `-`.
std::string common_folder(const std::vector<std::string>& words);

/// The name of a file or folder, of "." too, without the folders before it; "" of "".
std::string name_of_data(const std::filesystem::path& path);

/// `reason` without the file's name at its beginning.
std::string bare_reason(const std::string& path, const std::string& reason);
/// Reports on stderr that `path` was skipped, and why.
void tell_unreadable(const std::string& path, const std::string& reason);

}  // namespace whisker
