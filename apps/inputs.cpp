#include "apps/inputs.h"

#include "apps/terminal.h"
#include "core/error.h"

#include <filesystem>
#include <iostream>
#include <system_error>

namespace whisker {

std::vector<std::string> expand_stdin(const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const std::string& word : words) {
    if (word != "-") {
      names.push_back(word);
      continue;
    }
    for (std::string line; std::getline(std::cin, line);) {
      if (!line.empty()) names.push_back(line);
    }
  }
  return names;
}

InputFiles expand_inputs(const std::vector<std::string>& words) {
  InputFiles found;
  std::vector<std::string>& paths = found.paths;
  for (const std::string& word : expand_stdin(words)) {
    std::error_code error;
    if (!std::filesystem::is_directory(word, error)) {
      paths.push_back(word);
      continue;
    }
    const std::filesystem::path folder(word);
    const FileWalk walk = walk_files(folder, word, OnUnreadable::list);
    for (const WalkedFile& file : walk.files) {
      const std::string path = (folder / file.path).string();
      if (is_picture(folder, file.path)) {
        paths.push_back(path);
      } else {
        found.passed_over.push_back({path, "not a JPEG, PNG or BMP picture"});
      }
    }
    for (const SkippedFile& part : walk.unreadable) paths.push_back((folder / part.path).string());
  }
  return found;
}

std::string weights_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return path;
  const std::filesystem::path best = std::filesystem::path(path) / "best.safetensors";
  fail(ErrorKind::checkpoint, "{}: expected a weights file, got a folder.{}", printable(path),
       std::filesystem::exists(best, error) ? fmt::format(" Give {}.", printable(best.string()))
                                            : "");
}

std::string bare_reason(const std::string& path, const std::string& reason) {
  for (const std::string& name : {path, printable(path)}) {
    if (reason.starts_with(name + ": ")) return reason.substr(name.size() + 2);
  }
  return reason;
}

void tell_unreadable(const std::string& path, const std::string& reason) {
  tell(fmt::format("{} {}: {}\n", paint(stderr, "whisker: error:", Color::red),
                   path.empty() ? "''" : printable(path), bare_reason(path, reason)));
}

}  // namespace whisker
