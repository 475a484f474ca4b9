// Times beside a series, in the forms of published tables.
#include "data/sequences/time_order.h"

#include "data/sequences/series.h"
#include "tests/support/temporary_folder.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::HasSubstr;

/// The note on a series with these times, which grow; `backward`: turned round.
std::string note_on(std::vector<std::string> times, bool backward, const std::string& name = "") {
  if (backward) std::ranges::reverse(times);
  RowFile file{.name = "s.csv", .rows = {}, .bad = {}};
  for (const std::string& time : times) file.rows.push_back({.line = 1, .fields = {time, "1"}});
  if (!name.empty()) file.names = {name, "v"};
  const size_t value = 1;
  return time_order_note(file, {&value, 1});
}

TEST(TimeOrder, DatesOfManyForms) {
  const std::vector<std::vector<std::string>> forms = {
      {"2023-01-31", "2023-02-01", "2023-11-05"},
      {"2023-1-31", "2023-2-1", "2023-11-5"},
      {"2023/01", "2023/02", "2024/01"},
      {"20230131", "20230201", "20231105"},
      {"31/01/2023", "01/02/2023", "05/11/2023"},  // the day first
      {"01/31/2023", "02/01/2023", "11/05/2023"},  // the month first
      {"31.1.23", "1.2.23", "5.11.23"},
      {"1/30/99", "1/31/99", "2/1/00"},
      {"31 Jan 2023", "1 Feb 2023", "5 November 2023"},
      {"31-Jan-23", "01-Feb-23", "05-Nov-23"},
      {"Jan 31, 2023", "Feb 1, 2023", "Nov 5, 2023"},
      {"Jan 2023", "Feb 2023", "January 2024"},
      {"1/31/2023 9:00 AM", "1/31/2023 12:30 PM", "1/31/2023 1:00 PM"},
      {"2023-01-31 08:00", "2023-01-31 09:00", "2023-02-01 00:00"},
      {"2023-01-31T08:00:00.25Z", "2023-01-31T08:00:00.5Z", "2023-01-31T08:00:01.0Z"},
      {"2023-03-26 01:00:00+01:00", "2023-03-26 03:00:00+02:00", "2023-03-26 03:30:00+02:00"},
      {"2023-01-31 08:00:00 UTC", "2023-01-31 09:00:00 UTC", "2023-01-31 10:00:00 UTC"}};
  for (const std::vector<std::string>& times : forms) {
    EXPECT_EQ(note_on(times, false), "") << times[0];
    EXPECT_THAT(note_on(times, true),
                HasSubstr("s.csv: its 3 rows run backward in time, from " + times[2] + " to " +
                          times[0] + " (column 1): rows are read in the order of the file"))
        << times[0];
  }
  // Day and month are not told apart: backward in one reading only.
  EXPECT_EQ(note_on({"03/01/2023", "02/02/2023", "01/03/2023"}, false), "");
  EXPECT_THAT(note_on({"2023-01-01", "2023-01-03", "2023-01-02"}, false),
              HasSubstr("1 of 3 rows is older than the row before"));
  const std::vector<std::vector<std::string>> no_dates = {{"3/2", "2/2", "1/2"},
                                                          {"12:30", "12:20", "12:10"},
                                                          {"31/31/2023", "30/31/2023"},
                                                          {"2023-02-30", "2023-01-30"},
                                                          {"195834", "195833", "195832"},
                                                          {"1958114", "1958113", "1958112"},
                                                          {"2023-02-01", ""}};
  for (const std::vector<std::string>& times : no_dates) {
    EXPECT_EQ(note_on(times, false), "") << times[0];
  }
}

TEST(TimeOrder, NumbersThatArePlainlyTimes) {
  const auto counted_up = [](double first, double step, int rows = 8) {
    std::vector<std::string> times;
    for (int i = 0; i < rows; ++i) times.push_back(fmt::format("{}", first + i * step));
    return times;
  };
  const auto is_told = [&](double first, double step, const std::string& name, int rows = 8) {
    EXPECT_EQ(note_on(counted_up(first, step, rows), false, name), "");
    return !note_on(counted_up(first, step, rows), true, name).empty();
  };
  EXPECT_TRUE(is_told(1.7e9, 3600, "at"));
  EXPECT_TRUE(is_told(1.7e12, 3600000, ""));
  EXPECT_TRUE(is_told(0.5, 0.25, "Time"));
  EXPECT_TRUE(is_told(1949, 1, "Year"));
  EXPECT_TRUE(is_told(0, 1, ""));  // numbers of the rows
  EXPECT_TRUE(is_told(1, 1, "index"));
  EXPECT_FALSE(is_told(0, 1, "depth"));
  EXPECT_FALSE(is_told(0, 2, ""));
  EXPECT_FALSE(is_told(1e6, 3600, "price"));
  EXPECT_FALSE(is_told(1.7e9, 3600, "at", 7)) << "few rows may fall by chance";
  std::vector<std::string> mixed = counted_up(1.7e9, 3600);
  std::swap(mixed[2], mixed[5]);
  EXPECT_EQ(note_on(mixed, false), "") << "no order, no time";
}

}  // namespace
}  // namespace whisker::test
