// The page of `whisker data check --report` of texts, rows, series and plain text. At most 3 MB.
#pragma once

#include "apps/terminal/sequence_report.h"

#include <string>

namespace whisker {

/// The page of a report with details; `name`: of the data.
std::string sequence_check_page(const std::string& name, const SequenceReport& report);

}  // namespace whisker
