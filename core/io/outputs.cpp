#include "core/io/outputs.h"

#include "core/io/temporaries.h"
#include "core/io/text.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>

#include <sys/stat.h>
#include <unistd.h>

namespace whisker {
namespace {

namespace fs = std::filesystem;
using FileId = std::pair<dev_t, ino_t>;

std::string quoted_path(const fs::path& path) {
  return fmt::format("'{}'", printable(path.string()));
}

std::optional<FileId> id_of(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileId{info.st_dev, info.st_ino};
}

// `path` without links, as far as it exists.
fs::path real_path(const fs::path& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  const fs::path real = fs::weakly_canonical(absolute, error);
  return error ? absolute : real;
}

// The folders that exist from `folder`, a real path, up to the root.
std::vector<FileId> folders_from(fs::path folder) {
  std::vector<FileId> ids;
  for (;; folder = folder.parent_path()) {
    if (const auto id = id_of(folder)) ids.push_back(*id);
    if (!folder.has_relative_path()) return ids;
  }
}

}  // namespace

Outputs::~Outputs() {
  for (const auto& [what, files] : replaced_) {
    if (!tell_) break;
    const auto& [first, count] = files;
    tell_(fmt::format("{}: {}{}", what, quoted_path(first),
                      count > 1 ? fmt::format(" and {} more", count - 1) : ""));
  }
  for (auto made = made_.rbegin(); made != made_.rend(); ++made) {
    ::rmdir(made->c_str());
    forget_temporary(*made);
  }
}

std::string Outputs::named(const std::string& option, const fs::path& path) const {
  return fmt::format("{} {}: {}", command_, option, quoted_path(path));
}

void Outputs::add_input(const fs::path& path) {
  struct stat info {};
  // A terminal may be read and written.
  if (::stat(path.c_str(), &info) != 0 || S_ISCHR(info.st_mode) || S_ISDIR(info.st_mode)) return;
  inputs_.emplace(FileId{info.st_dev, info.st_ino}, path);
  for (const Output& output : outputs_) check(output);
}

void Outputs::add_data(const fs::path& path) {
  struct stat info {
  }, link{};
  if (::stat(path.c_str(), &info) != 0 || S_ISCHR(info.st_mode)) return;
  const FileId id{info.st_dev, info.st_ino};
  const bool is_folder = S_ISDIR(info.st_mode);
  (is_folder ? data_folders_ : inputs_).emplace(id, path);
  // The files of a folder have the same parents: looked up once.
  const bool is_link = ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode);
  if (is_folder || is_link || seen_parents_.insert(path.parent_path()).second) {
    for (const FileId& above : folders_from(real_path(path).parent_path())) {
      above_data_.emplace(above, path);
    }
    add_folders_between(path.parent_path());
  }
  for (const Output& output : outputs_) check(output);
}

// A walk of a data folder reads those in it as well, which links may have elsewhere. `folder` is of
// a file; without a data folder above it, the file was given by itself.
void Outputs::add_folders_between(fs::path folder) {
  std::map<FileId, fs::path> between;
  for (; !folder.empty(); folder = folder.parent_path()) {
    const std::optional<FileId> id = id_of(folder);
    if (id && data_folders_.contains(*id)) return data_folders_.merge(between);
    if (!id || !folder.has_relative_path()) return;
    between.emplace(*id, folder);
  }
}

void Outputs::refuse_input(const Output& output, const fs::path& input) const {
  fail(ErrorKind::usage, "{} is an input of this command ({}). Name another file.", output.name,
       quoted_path(input));
}

void Outputs::check(const Output& output) const {
  const auto refuse = [&](std::string_view what, const fs::path& input) {
    fail(ErrorKind::usage, "{} {} {}, which this command reads. Name {}.", output.name, what,
         quoted_path(input),
         output.is_folder ? "a folder apart from the inputs" : "a file outside of it");
  };
  for (const FileId& id : output.own) {
    if (const auto input = inputs_.find(id); input != inputs_.end()) {
      refuse_input(output, input->second);
    }
    if (!output.is_folder) continue;
    if (const auto data = data_folders_.find(id); data != data_folders_.end()) {
      refuse("is the folder", data->second);
    }
    if (const auto data = above_data_.find(id); data != above_data_.end()) {
      refuse("contains", data->second);
    }
  }
  for (const FileId& id : output.above) {
    if (const auto data = data_folders_.find(id); data != data_folders_.end()) {
      refuse("lies in the folder", data->second);
    }
  }
}

std::unique_ptr<OutputFile> Outputs::open(const std::string& option, const fs::path& path,
                                          const OutputFormat& format) {
  const std::string name = named(option, path);
  if (path.empty()) fail(ErrorKind::usage, "{}: expected the name of a file.", name);
  if (path == "-") {
    fail(ErrorKind::usage,
         "{}: expected the name of a file; /dev/stdout is standard output, ./- a file of this name.",
         name);
  }
  const OutputTarget target = output_target(path, name);
  Output output{.name = name, .path = real_path(target.path), .own = {}, .above = {}};
  if (target.exists) output.own.emplace(target.device, target.inode);
  if (!target.is_stream) output.above = folders_from(output.path.parent_path());
  check(output);
  for (const Output& other : outputs_) {
    const bool same_file = !output.own.empty() && other.own == output.own;
    if (!same_file && other.path != output.path) continue;
    fail(ErrorKind::usage, "{} is an output of this command already ({}). Name another file.", name,
         other.name);
  }
  auto file = std::make_unique<OutputFile>(target, name, format, force_, calls_);
  outputs_.push_back(std::move(output));
  return file;
}

void Outputs::commit(OutputFile& file, const std::string& option, const OutputFormat& format) {
  const Replaced replaced = file.commit();
  if (replaced == Replaced::nothing) return;
  const std::string what =
      replaced == Replaced::forced
          ? fmt::format("{} {} --force: replaced", command_, option)
          : fmt::format("{} {}: replaced {} of an earlier command", command_, option, format.name);
  ++replaced_.try_emplace(what, file.path().string(), 0).first->second.second;
}

void Outputs::make_folders(const fs::path& folder) {
  std::vector<fs::path> missing;
  std::error_code error;
  for (fs::path at = fs::absolute(folder); !fs::exists(at, error) && at.has_relative_path();
       at = at.parent_path()) {
    if (at.has_filename()) missing.push_back(at);
  }
  std::ranges::reverse(missing);
  for (const fs::path& at : missing) {
    if (create_temporary(at, [&] { return ::mkdir(at.c_str(), 0777) == 0; })) {
      made_.push_back(at);
    } else if (errno != EEXIST) {
      fail_disk("create", folder, errno);
    }
  }
}

void Outputs::open_folder(const std::string& option, const fs::path& folder) {
  Output output{.name = named(option, folder),
                .path = real_path(folder / ""),
                .is_folder = true,
                .own = {},
                .above = {}};
  output.path = output.path.has_filename() ? output.path : output.path.parent_path();
  struct stat info {};
  if (::stat(folder.c_str(), &info) == 0) {
    if (!S_ISDIR(info.st_mode)) {
      fail(ErrorKind::usage, "{}: expected the name of a folder, got {}.", output.name,
           file_type_name(info.st_mode));
    }
    output.own.emplace(info.st_dev, info.st_ino);
  }
  output.above = folders_from(output.path.parent_path());
  check(output);
  if (is_run_file(folder / "probe")) {
    fail(ErrorKind::usage, "{} is a folder that only its run writes. Name another folder.",
         output.name);
  }
  for (const Output& other : outputs_) {
    if (other.path != output.path) continue;
    fail(ErrorKind::usage, "{} is an output of this command already ({}). Name another folder.",
         output.name, other.name);
  }
  make_folders(folder);
  if (const auto id = id_of(folder)) output.own.insert(*id);
  { const AtomicFile probe(folder / "probe", calls_); }  // fails where nothing can be written
  outputs_.push_back(std::move(output));
}

void Outputs::write(const std::string& option, const fs::path& folder, const fs::path& name,
                    std::string_view content, const OutputFormat& format) {
  make_folders((folder / name).parent_path());
  const std::unique_ptr<OutputFile> file = open(option, folder / name, format);
  outputs_.pop_back();  // its names are distinct, and may be very many
  file->write(content);
  commit(*file, option, format);
  // A folder with a file in it stays: its place is free for what is written next.
  std::erase_if(made_, [](const fs::path& made) {
    std::error_code error;
    if (fs::is_empty(made, error) || error) return false;
    forget_temporary(made);
    return true;
  });
}

}  // namespace whisker
