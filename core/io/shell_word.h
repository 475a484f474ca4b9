// Commands in messages and reports.
#pragma once

#include <string>

namespace whisker {

/// `text` as one word for a shell; a plain word stays as it is.
std::string shell_word(const std::string& text);

}  // namespace whisker
