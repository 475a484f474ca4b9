// The folder a run writes: never overwritten, one writer at a time.
//   config.yaml        the resolved configuration
//   metrics.jsonl      one object per logged step and per epoch
//   metrics.csv        a row per epoch
//   tensorboard/       with train.tensorboard: an event file per start or resume
//   histograms.jsonl   statistics of layers and parameters, with train.histogram_every
//   non_finite.safetensors   the batch and the weights of a step that was not finite
//   log.txt            the terminal's messages
//   log.rank1.txt      those of rank 1, with train.log_ranks
//   best.safetensors   best weights so far, with classes and preprocessing
//   validation.safetensors  what their validation measured of each example (see
//                      train/metrics/validation_examples.h)
//   split.csv          which images train and which validate (see data/images/split_list.h)
//   last/              everything needed to resume (see train/checkpoint/checkpoint.h)
#pragma once

#include "core/io/run_files.h"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace whisker {

/// Remedy for a run that cannot be resumed: "start a new run with --init RUN/best.safetensors",
/// without the option when there are no weights yet.
std::string new_run_remedy(const std::filesystem::path& run);

/// Makes runs/name, or runs/name-2, -3, ... when that exists; durable.
std::filesystem::path new_folder_of(const std::filesystem::path& runs, const std::string& name,
                                    const FileCalls& calls = system_file_calls());

class RunFolder {
 public:
  /// new_folder_of(), locked.
  static RunFolder create(const std::filesystem::path& runs, const std::string& name,
                          const FileCalls& calls = system_file_calls());
  /// Locks an existing run folder. Throws checkpoint when it holds no config.yaml, or links in
  /// place of files that a run writes.
  static RunFolder open(const std::filesystem::path& path,
                        const FileCalls& calls = system_file_calls());

  /// The folder that rank 0 writes, for another rank: nothing is locked, made or written, but
  /// log() once open_log() was called.
  static RunFolder of_rank_0(const std::filesystem::path& path) { return RunFolder(path); }
  /// log.rankN.txt of rank `rank`, from 1.
  void open_log(int rank);

  /// Whether this process writes it.
  bool writes() const { return lock_ != nullptr; }
  /// Whether this process can put a file of its own there: another rank's machine may lack the
  /// folder.
  bool reachable() const;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config() const { return path_ / "config.yaml"; }
  std::filesystem::path split() const { return path_ / "split.csv"; }
  std::filesystem::path best() const { return path_ / "best.safetensors"; }
  std::filesystem::path validation() const { return path_ / "validation.safetensors"; }
  std::filesystem::path last() const { return path_ / "last"; }
  /// Only where it writes().
  LogFile& metrics() { return *metrics_; }
  /// Likewise; made at the first call.
  LogFile& histograms();
  std::filesystem::path histograms_path() const { return path_ / "histograms.jsonl"; }
  /// Bytes on disk of histograms.jsonl, as far as this process has opened it.
  uint64_t sync_histograms();
  /// Cuts histograms.jsonl, if it is there, back to at most `bytes`.
  void cut_histograms(uint64_t bytes);
  /// See train/loop/failed_step.h.
  std::filesystem::path failed_step() const { return path_ / "non_finite.safetensors"; }
  /// Appends a terminal message to log.txt, or to this rank's log, escaped likewise, with a line
  /// break.
  void log(std::string_view message);
  /// Ends writing and releases the folder; throws disk for data that could not be written.
  void close();

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  RunFolder(std::filesystem::path path, const FileCalls& calls);

  std::filesystem::path path_;
  std::unique_ptr<FolderLock> lock_;
  const FileCalls* calls_ = &system_file_calls();
  std::unique_ptr<LogFile> metrics_;
  std::unique_ptr<LogFile> log_;
  std::unique_ptr<LogFile> histograms_;
};

}  // namespace whisker
