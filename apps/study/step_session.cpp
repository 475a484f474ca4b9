#include "apps/study/step_session.h"

#include "core/error.h"
#include "core/io/text.h"

#include <sstream>

namespace whisker {
namespace {

bool is_key(const std::string& word) {
  return (word.size() == 1 && std::string("npfbvq").find(word) != std::string::npos) ||
         (word.size() > 1 && word[0] == '/');
}

[[noreturn]] void refuse_key(const std::string& word) {
  fail(ErrorKind::usage, "study step: expected a key ({}), got {}.", StepSession::keys,
       excerpt(word));
}

}  // namespace

std::string StepSession::follow(const std::string& word) {
  if (!is_key(word)) refuse_key(word);
  const size_t last = frames_.count() - 1;
  switch (word[0]) {
    case 'n':
      if (frame_ == last) return "this is the last frame\n";
      ++frame_;
      break;
    case 'p':
      if (frame_ == 0) return "this is the first frame\n";
      --frame_;
      break;
    case 'f':
      frame_ = last;
      break;
    case 'b':
      frame_ = frames_.loss();
      break;
    case 'v':
      options_.all_values = !options_.all_values;
      break;
    case '/': {
      const size_t found = frames_.find(word.substr(1), frame_);
      if (found == frame_) return fmt::format("no other frame has {}\n", excerpt(word.substr(1)));
      frame_ = found;
      break;
    }
    default:
      break;
  }
  return {};
}

std::vector<std::string> script_words(const std::string& script) {
  std::vector<std::string> words;
  std::istringstream stream(script);
  std::string word;
  while (stream >> word) {
    if (!is_key(word)) refuse_key(word);
    words.push_back(word);
  }
  return words;
}

}  // namespace whisker
