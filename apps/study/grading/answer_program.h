// An answer built with g++ into a program of its own, and run on problems under limits.
#pragma once

#include "apps/study/grading/exercise.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace whisker {

/// What an answer made of one problem.
struct Outcome {
  std::vector<std::vector<double>>
      results;          ///< in the signature's order; empty where it was stopped
  std::string stopped;  ///< why, as a part of a sentence
};

struct AnswerRun {
  std::vector<Outcome> outcomes;  ///< of the first problems, up to the one that ended the process
  std::string printed;            ///< what the answer wrote to stdout and stderr, the beginning
};

/// What an answer is built for: a kernel runs on an emulated block, or by nvcc on a GPU.
enum class BuiltFor : uint8_t { cpu, gpu };
/// Why no kernel can be built and run on a GPU here, a sentence, or "".
std::string why_no_gpu_answer();

class AnswerProgram {
 public:
  static constexpr int run_limit_s = 10;
  static constexpr int64_t memory_limit = int64_t{1} << 30;

  /// Builds `file` with the headers of `course` in a temporary folder. Throws usage for a file that
  /// is not there, device without g++ or nvcc, and what run_child() throws.
  AnswerProgram(const Exercise& exercise, const std::filesystem::path& file,
                const std::filesystem::path& course, BuiltFor built_for = BuiltFor::cpu);
  AnswerProgram(const AnswerProgram&) = delete;
  AnswerProgram& operator=(const AnswerProgram&) = delete;

  /// The compiler's first messages; "": it was built.
  const std::string& build_errors() const { return build_errors_; }
  AnswerRun run(std::span<const Problem> problems, int seconds = run_limit_s) const;

 private:
  struct Folder {  // removed with what is in it
    std::filesystem::path path;
    ~Folder();
  };
  const Exercise& exercise_;
  BuiltFor built_for_;
  Folder folder_;
  std::string build_errors_;
};

/// docs/course of the sources, or share/whisker/course of the installation. Throws usage where
/// neither is there.
std::filesystem::path course_folder();

}  // namespace whisker
