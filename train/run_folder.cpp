// Creation is one mkdir per candidate name: of several starters, each gets a folder of its own.
#include "train/run_folder.h"

#include "core/error.h"
#include "core/io/atomic_file.h"

#include <system_error>

namespace whisker {
namespace fs = std::filesystem;

RunFolder::RunFolder(fs::path path)
    : path_(std::move(path)),
      lock_(std::make_unique<FolderLock>(path_)),
      metrics_(std::make_unique<LogFile>(path_ / "metrics.jsonl")),
      log_(std::make_unique<LogFile>(path_ / "log.txt")) {
  fs::create_directories(last());
  remove_stale_temporaries(path_);
  remove_stale_temporaries(last());
}

RunFolder RunFolder::create(const fs::path& runs, const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
    fail(ErrorKind::usage, "name: expected a plain folder name, got '{}'", name);
  }
  std::error_code error;
  fs::create_directories(runs, error);
  constexpr int most = 100'000;
  for (int number = 1; !error && number < most; ++number) {
    const fs::path path = runs / (number == 1 ? name : fmt::format("{}-{}", name, number));
    if (fs::create_directory(path, error)) return RunFolder(path);
  }
  const bool full = error == std::errc::no_space_on_device || error == std::errc::io_error;
  fail(full ? ErrorKind::disk : ErrorKind::usage, "runs: cannot make a run folder in {}: {}",
       runs.string(), error.message());
}

RunFolder RunFolder::open(const fs::path& path) {
  if (!fs::is_directory(path) || !fs::exists(path / "config.yaml")) {
    fail(ErrorKind::checkpoint,
         "{}: not a run folder (no config.yaml in it). Give a folder that 'whisker train' made.",
         path.string());
  }
  return RunFolder(path);
}

}  // namespace whisker
