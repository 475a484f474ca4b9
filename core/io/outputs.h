// All files and folders that one command writes, checked against each other and against everything
// that the command reads, by device and inode. Nothing that a command reads is ever written.
#pragma once

#include "core/io/output_file.h"

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace whisker {

class Outputs {
 public:
  using Tell = std::function<void(const std::string&)>;

  /// `command` stands in errors. With `force` files that are not the command's own are replaced,
  /// but no inputs and no files of a run. `tell` receives what was replaced, at the end.
  explicit Outputs(std::string command, bool force = false, Tell tell = {},
                   const FileCalls& calls = system_file_calls())
      : command_(std::move(command)), force_(force), tell_(std::move(tell)), calls_(calls) {}
  Outputs(const Outputs&) = delete;
  Outputs& operator=(const Outputs&) = delete;
  /// Removes the folders that it made and nothing was written to.
  ~Outputs();

  /// A file that the command reads, as its weights; what is not there is left to its reader.
  void add_input(const std::filesystem::path& path);
  /// A file or folder of data: besides, no output lies in the folder, and no output folder contains
  /// or is in it. Files in a folder follow it: links may lead to other folders. Inputs may follow
  /// outputs: throws usage for one that is an output, or among them.
  void add_data(const std::filesystem::path& path);

  /// The file that `option` names. Throws usage for an input, a place among the data, another
  /// output; and as OutputFile().
  std::unique_ptr<OutputFile> open(const std::string& option, const std::filesystem::path& path,
                                   const OutputFormat& format);
  /// Commits a file of open().
  void commit(OutputFile& file, const std::string& option, const OutputFormat& format);

  /// Makes the folder that `option` names, unless it is there, and makes sure that files can be
  /// written to it. Throws as open().
  void open_folder(const std::string& option, const std::filesystem::path& folder);
  /// Writes `name`, a path below `folder`, which open_folder() made; throws as open() and commit().
  void write(const std::string& option, const std::filesystem::path& folder,
             const std::filesystem::path& name, std::string_view content,
             const OutputFormat& format);

 private:
  using FileId = std::pair<dev_t, ino_t>;
  struct Output {
    std::string name;  // "--cam: 'maps'"
    std::filesystem::path path;
    bool is_folder = false;
    std::set<FileId> own;       // what stands there; of a folder itself
    std::vector<FileId> above;  // the folders that it lies in
  };

  std::string named(const std::string& option, const std::filesystem::path& path) const;
  void check(const Output& output) const;
  void refuse_input(const Output& output, const std::filesystem::path& input) const;
  void make_folders(const std::filesystem::path& folder);
  void add_folders_between(std::filesystem::path folder);

  std::string command_;
  bool force_;
  Tell tell_;
  const FileCalls& calls_;
  std::map<FileId, std::filesystem::path> inputs_;        // files, and folders of data
  std::map<FileId, std::filesystem::path> data_folders_;  // themselves, and those in them
  std::map<FileId, std::filesystem::path> above_data_;    // the folders that data lie in
  std::set<std::filesystem::path> seen_parents_;          // of data files
  std::deque<Output> outputs_;
  std::vector<std::filesystem::path> made_;
  std::map<std::string, std::pair<std::string, int64_t>> replaced_;  // by what: first name, number
};

}  // namespace whisker
