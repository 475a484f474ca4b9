// A table written to a file and read as rows, texts or a series.
#pragma once

#include "data/sequences/labelled_text.h"
#include "data/sequences/rows_input.h"
#include "data/sequences/series.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <string>

#include <gtest/gtest.h>

namespace whisker::test {

class TableFile : public testing::Test {
 protected:
  LabelledRows rows(const std::string& content, LabelledRowsOptions options = {}) const {
    options.max_bad = 1;
    return read_labelled_rows(folder_.write("t.csv", content), options);
  }
  std::string rows_refused(const std::string& content, LabelledRowsOptions options = {}) const {
    return message_of(ErrorKind::data, [&] { rows(content, options); });
  }
  LabelledText texts(const std::string& content, LabelledTextOptions options = {}) const {
    options.max_bad = 0;
    return read_labelled_text(folder_.write("t.csv", content), options);
  }
  std::string texts_refused(const std::string& content, LabelledTextOptions options = {}) const {
    return message_of(ErrorKind::data, [&] { texts(content, options); });
  }
  Series series(const std::string& content, const SeriesInput& input,
                int rules = newest_data_rules) const {
    return read_series(folder_.write("t.csv", content), input, 1, rules);
  }

  TemporaryFolder folder_;
};

}  // namespace whisker::test
