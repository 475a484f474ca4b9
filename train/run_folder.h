// The folder a run writes: never overwritten, one writer at a time.
//   config.yaml        the resolved configuration; training from it repeats the run
//   metrics.jsonl      one object per logged step and per epoch
//   log.txt            what was said on the terminal
//   best.safetensors   best weights so far, with classes and preprocessing
//   last/              everything needed to resume (see train/checkpoint.h)
#pragma once

#include "core/io/run_files.h"

#include <filesystem>
#include <memory>
#include <string>

namespace whisker {

class RunFolder {
 public:
  /// Makes runs/name, or runs/name-2, -3, ... when that exists, and locks it.
  static RunFolder create(const std::filesystem::path& runs, const std::string& name);
  /// Locks an existing run folder. Throws checkpoint when it holds no config.yaml.
  static RunFolder open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config() const { return path_ / "config.yaml"; }
  std::filesystem::path best() const { return path_ / "best.safetensors"; }
  std::filesystem::path last() const { return path_ / "last"; }
  LogFile& metrics() { return *metrics_; }
  LogFile& log() { return *log_; }

 private:
  explicit RunFolder(std::filesystem::path path);

  std::filesystem::path path_;
  std::unique_ptr<FolderLock> lock_;
  std::unique_ptr<LogFile> metrics_;
  std::unique_ptr<LogFile> log_;
};

}  // namespace whisker
