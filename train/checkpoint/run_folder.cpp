// Creation is one mkdir per candidate name, so that concurrent runs get different folders.
#include "train/checkpoint/run_folder.h"

#include "core/error.h"
#include "core/io/atomic_file.h"
#include "core/io/text.h"

#include <algorithm>
#include <system_error>

#include <sys/stat.h>
#include <unistd.h>

namespace whisker {
namespace fs = std::filesystem;

namespace {

// A link to a folder elsewhere would have checkpoints written, and old ones removed, there.
void make_own_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directory(path, error);
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) fail_disk("create", path, error.value());
  if (S_ISDIR(info.st_mode)) return;
  fail(ErrorKind::checkpoint,
       "{}: expected a folder of the run's own, got {}. Replace it by the folder itself.",
       printable(path.string()), file_type_name(info.st_mode));
}

}  // namespace

RunFolder::RunFolder(fs::path path, const FileCalls& calls)
    : path_(std::move(path)),
      lock_(std::make_unique<FolderLock>(path_, calls)),
      calls_(&calls),
      metrics_(std::make_unique<LogFile>(path_ / "metrics.jsonl", calls)),
      log_(std::make_unique<LogFile>(path_ / "log.txt", calls)) {
  make_own_folder(last());
  sync_folder(calls, path_);
  remove_stale_temporaries(path_);
  remove_stale_temporaries(last());
}

std::string new_run_remedy(const fs::path& run) {
  const fs::path best = run / "best.safetensors";
  std::error_code error;
  return fs::exists(best, error)
             ? fmt::format("start a new run with --init {}", printable(best.string()))
             : "start a new run";
}

fs::path new_folder_of(const fs::path& runs, const std::string& name, const FileCalls& calls) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
    fail(ErrorKind::usage, "name: expected a plain folder name, got '{}'", name);
  }
  std::error_code error;
  const fs::path parent = fs::absolute(runs / name).parent_path();
  fs::path existing = parent;  // the folders below it are made here
  while (!fs::exists(existing, error) && existing.has_relative_path()) {
    existing = existing.parent_path();
  }
  if (!fs::is_directory(existing, error)) {
    fail(
        ErrorKind::usage,
        "runs: expected a folder for runs, got {}, which is a file. Name another with runs=FOLDER.",
        excerpt(existing.string()));
  }
  fs::create_directories(runs, error);
  constexpr int most = 100'000;
  for (int number = 1; !error && number < most; ++number) {
    const fs::path path = runs / (number == 1 ? name : fmt::format("{}-{}", name, number));
    if (!fs::create_directory(path, error)) {
      std::error_code unknown;
      if (error != std::errc::file_exists) continue;
      fail(ErrorKind::usage,
           "name: {} is a file, where the folder of this run should be. Remove or rename it, or "
           "give the run another name with name=NAME.",
           excerpt(path.string()));
    }
    for (fs::path above = parent;; above = above.parent_path()) {
      sync_folder(calls, above);
      if (above == existing) break;
    }
    return path;
  }
  const bool full = error == std::errc::no_space_on_device || error == std::errc::io_error;
  fail(full ? ErrorKind::disk : ErrorKind::usage, "runs: cannot make a run folder in {}: {}",
       printable(runs.string()), error.message());
}

RunFolder RunFolder::create(const fs::path& runs, const std::string& name, const FileCalls& calls) {
  return RunFolder(new_folder_of(runs, name, calls), calls);
}

RunFolder RunFolder::open(const fs::path& path, const FileCalls& calls) {
  if (!fs::is_directory(path) || !fs::is_regular_file(path / "config.yaml")) {
    fail(ErrorKind::checkpoint,
         "{}: not a run folder (no config.yaml in it). Name a folder that 'whisker train' made.",
         printable(path.string()));
  }
  return RunFolder(path, calls);
}

bool RunFolder::reachable() const {
  std::error_code unknown;
  return fs::is_directory(path_, unknown) && ::access(path_.c_str(), W_OK) == 0;
}

void RunFolder::open_log(int rank) {
  log_ = std::make_unique<LogFile>(path_ / fmt::format("log.rank{}.txt", rank));
}

LogFile& RunFolder::histograms() {
  if (!histograms_) histograms_ = std::make_unique<LogFile>(histograms_path(), *calls_);
  return *histograms_;
}

uint64_t RunFolder::sync_histograms() {
  if (!histograms_) return 0;
  histograms_->sync();
  return histograms_->offset();
}

void RunFolder::cut_histograms(uint64_t bytes) {
  std::error_code none;
  if (!fs::exists(fs::symlink_status(histograms_path(), none))) return;
  histograms().truncate_to(std::min(bytes, histograms().offset()));
}

void RunFolder::close() {
  if (metrics_) metrics_->close();
  if (histograms_) histograms_->close();
  if (log_) log_->close();
  if (lock_) lock_->close();
}

void RunFolder::log(std::string_view message) {
  if (!log_) return;
  log_->append(printable(message, KeptLines::indented) + (message.ends_with('\n') ? "" : "\n"));
}

}  // namespace whisker
