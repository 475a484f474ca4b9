// Times beside a series, in the forms of published tables.
#include "data/sequences/time_order.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::HasSubstr;

/// What is said of rows of times or names and one value.
std::string notes_on(RowFile file) {
  const size_t value = file.rows.front().fields.size() - 1;
  std::string text;
  for (const std::string& note : order_by_time(file, {&value, 1}).notes) text += note + "; ";
  return text;
}

RowFile file_of(const std::vector<std::vector<std::string>>& columns,
                int rules = newest_data_rules) {
  RowFile file{.name = "s.csv", .rows = {}, .bad = {}, .rules = rules};
  for (size_t row = 0; row < columns[0].size(); ++row) {
    CsvRow cells{.line = static_cast<int>(row) + 1, .fields = {}};
    for (const auto& column : columns) cells.fields.push_back(column[row]);
    cells.fields.emplace_back("1");
    file.rows.push_back(std::move(cells));
  }
  return file;
}

/// The same of a series with these times, which grow; `backward`: turned round.
std::string note_on(std::vector<std::string> times, bool backward, const std::string& name = "") {
  if (backward) std::ranges::reverse(times);
  RowFile file = file_of({times});
  if (!name.empty()) file.names = {name, "v"};
  return notes_on(file);
}

/// So many of the days since 2023-01-01, a Sunday, that `keep` keeps.
template <class Keep>
std::vector<std::string> days(int count, const Keep& keep) {
  using namespace std::chrono;
  std::vector<std::string> all;
  for (int i = 0; std::ssize(all) < count; ++i) {
    const year_month_day day{sys_days{year{2023} / January / 1} + std::chrono::days{i}};
    if (keep(i)) {
      all.push_back(fmt::format("{}-{:02}-{:02}", static_cast<int>(day.year()),
                                static_cast<unsigned>(day.month()),
                                static_cast<unsigned>(day.day())));
    }
  }
  return all;
}

std::vector<std::string> daily(int count) {
  return days(count, [](int) { return true; });
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
      {"01/31/2019 23:00", "01/31/2019 24:00", "02/01/2019 01:00"},  // the day's end
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

TEST(TimeOrder, StepsUnlikeTheOthersAreTold) {
  const auto note = [](const std::vector<std::string>& times, double* step = nullptr) {
    RowFile file = file_of({times});
    const size_t value = 1;
    const TimeOrder found = order_by_time(file, {&value, 1});
    if (step) *step = found.step_seconds;
    return found.notes.empty() ? "" : found.notes.front();
  };
  double step = 0;
  EXPECT_EQ(note(daily(20), &step), "");
  EXPECT_EQ(step, 86400);
  EXPECT_EQ(
      note(days(20, [](int i) { return i < 5 || i > 7; })),
      "s.csv: rows are 1 day apart (column 1); 1 of 19 steps is 4 days: windows take the rows "
      "for evenly spaced");
  EXPECT_EQ(note(days(20, [](int i) { return i % 7 > 0 && i % 7 < 6; })), "") << "weekends";
  const auto without = [&](int first, int last) {  // of weekdays
    return note(days(40, [=](int i) { return i % 7 > 0 && i % 7 < 6 && (i < first || i > last); }));
  };
  EXPECT_EQ(without(10, 10), "") << "a holiday";
  EXPECT_EQ(without(12, 15), "") << "two, and a weekend";
  EXPECT_THAT(without(10, 18), HasSubstr("1 of 39 steps is 8 days"));
  EXPECT_EQ(note(days(20, [](int i) { return i % 7 == 3; }), &step), "");
  EXPECT_EQ(step, 7 * 86400);
  std::vector<std::string> months;
  for (int i = 0; i < 30; ++i) months.push_back(fmt::format("{}-{:02}", 1949 + i / 12, i % 12 + 1));
  EXPECT_EQ(note(months), "");
  months.erase(months.begin() + 3, months.begin() + 5);
  EXPECT_THAT(note(months),
              HasSubstr("rows are 1 month apart (column 1); 1 of 27 steps is 3 months"));
  EXPECT_THAT(note({"2023-01-01 08:00:00", "2023-01-01 08:00:01", "2023-01-01 09:00:00",
                    "2023-01-03", "2023-02-01"},
                   &step),
              HasSubstr("rows are unevenly apart, "));
  EXPECT_EQ(step, 0);
  std::vector<std::string> twice = daily(20);
  twice.insert(twice.begin() + 4, twice[4]);
  EXPECT_EQ(note(twice),
            "s.csv: 1 of 21 rows has the time of the row before (column 1): rows are read in the "
            "order of the file. Remove those that are copies; give each of several series a file "
            "of its own");
  std::vector<std::string> parts;
  for (const std::string& date : daily(20)) parts.insert(parts.end(), {date, date, date});
  EXPECT_THAT(note(parts, &step), HasSubstr("40 of 60 rows have the time of the row before"));
  EXPECT_EQ(step, 0);
  // January as days or as months: not told apart.
  EXPECT_EQ(note({"01/01/2023", "01/02/2023", "01/03/2023", "01/04/2023", "01/05/2023"}, &step),
            "");
  EXPECT_EQ(step, 0);
  EXPECT_THAT(note({"1700000000", "1700003600", "1700007200", "1700010800", "1700014400",
                    "1700018000", "1700028800", "1700032400"},
                   &step),
              HasSubstr("rows are 1 h apart (column 1); 1 of 7 steps is 3 h"));
  EXPECT_EQ(step, 3600);
}

TEST(TimeOrder, ADateBesideItsHoursIsNoStep) {
  const auto said = [](const std::vector<std::vector<std::string>>& columns,
                       const std::vector<std::string>& names) {
    RowFile file = file_of(columns);
    file.names = names;
    const size_t value = columns.size();
    const TimeOrder found = order_by_time(file, {&value, 1});
    EXPECT_EQ(found.step_seconds, 0);
    return !found.notes.empty();
  };
  std::vector<std::string> dates, years, hours, clocks;
  for (int i = 0; i < 48; ++i) {
    dates.push_back(fmt::format("2011-01-{:02}", 1 + i / 12));
    years.push_back(fmt::format("{}", 2001 + i / 12));
    hours.push_back(fmt::format("{}", 1 + i % 12));
    clocks.push_back(fmt::format("{:02}:00", 1 + i % 12));
  }
  EXPECT_FALSE(said({dates, hours}, {"dteday", "hr", "cnt"}));
  EXPECT_FALSE(said({dates, clocks}, {}));
  EXPECT_FALSE(said({years, hours}, {"Year", "Month", "spots"}));
  RowFile others = file_of({dates, hours});
  EXPECT_THAT(notes_on(others), HasSubstr("44 of 48 rows have the time of the row before"));
  others.names = {"dteday", "hr", "cnt"};
  for (CsvRow& row : others.rows) row.fields[1] = "1";
  EXPECT_THAT(notes_on(others), HasSubstr("44 of 48 rows have")) << "which no hour tells apart";
}

TEST(TimeOrder, AnHourBackIsTheEndOfSummerTime) {
  std::vector<std::string> times;
  for (int i = 0; i < 600; ++i) {
    const int quarter = i < 500 ? i : i - 4;
    times.push_back(fmt::format("2023-10-{:02} {:02}:{:02}", 20 + quarter / 96, quarter / 4 % 24,
                                quarter % 4 * 15));
  }
  EXPECT_EQ(notes_on(file_of({times})),
            "s.csv: its times (column 1) go back by an hour in 1 row, first in line 501, as where "
            "summer time ends: rows are read in the order of the file; ");
  std::swap(times[100], times[300]);
  EXPECT_THAT(notes_on(file_of({times})), HasSubstr("older than the row before"));
  std::vector<std::string> hours;  // 2:00 occurs twice
  for (int i = 0; i < 600; ++i) {
    const int hour = i < 123 ? i : i - 1;
    hours.push_back(fmt::format("2023-10-{:02} {:02}:00:00", 1 + hour / 24, hour % 24));
  }
  EXPECT_EQ(notes_on(file_of({hours})),
            "s.csv: 1 of 600 rows has the time of the row before (column 1), as where summer time "
            "ends: rows are read in the order of the file; ");
}

// As the hourly consumption of PJM is published.
TEST(TimeOrder, DaysFromTheLastToTheFirstAreOneSeries) {
  std::vector<std::string> times;
  for (int day = 20; day > 0; --day) {
    for (int hour = 0; hour < 24; ++hour) {
      times.push_back(fmt::format("2004-12-{:02} {:02}:00:00", day, hour));
    }
  }
  EXPECT_THAT(notes_on(file_of({times})),
              HasSubstr("19 of 480 rows are older than the row before (column 1): rows are read in "
                        "the order of the file; sort it by time"));
}

TEST(TimeOrder, ARowWithoutADateAmongDatesIsLeftOut) {
  std::vector<std::string> times = daily(20);
  times.emplace_back("Total");
  const size_t value = 1;
  RowFile file = file_of({times});
  EXPECT_THAT(order_by_time(file, {&value, 1}).notes, testing::IsEmpty());
  EXPECT_EQ(file.rows.size(), 20);
  ASSERT_EQ(file.bad.size(), 1);
  EXPECT_EQ(file.bad[0].place, "s.csv:21");
  EXPECT_EQ(file.bad[0].reason, "expected a date in column 1 as in other rows, got 'Total'");
  RowFile older = file_of({times}, 2);
  order_by_time(older, {&value, 1});
  EXPECT_EQ(older.rows.size(), 21) << "runs of older rules read it";
  RowFile few = file_of({{"2023-01-01", "2023-01-02", "note", "2023-01-03", "another"}});
  order_by_time(few, {&value, 1});
  EXPECT_EQ(few.rows.size(), 5) << "no column of dates";
}

TEST(TimeOrder, SeriesOneBehindTheOtherAreTold) {
  const auto blocks = [](const std::vector<std::string>& values, int rows) {
    std::vector<std::string> all;
    for (const std::string& value : values) all.insert(all.end(), static_cast<size_t>(rows), value);
    return all;
  };
  const std::vector<std::string> once = daily(10);
  std::vector<std::string> again = once;
  again.insert(again.end(), once.begin(), once.end());
  const std::string several =
      "s.csv: column 1 holds 'Rome' before line 11 and 'Oslo' from there, as of several series, "
      "and "
      "windows run across: give each a file of its own; ";
  EXPECT_EQ(notes_on(file_of({blocks({"Rome", "Oslo"}, 10)})), several);
  EXPECT_EQ(notes_on(file_of({blocks({"Rome", "Oslo"}, 10), again})), several);
  EXPECT_THAT(notes_on(file_of({blocks({"4", "7"}, 10), again})), HasSubstr("column 1 holds '4'"));
  EXPECT_EQ(notes_on(file_of({again})),
            "s.csv: its times (column 1) begin again in 1 row, first in line 11, as of several "
            "series, and windows run across: give each a file of its own; ");
  // Several values that follow one another in a series.
  for (const auto& values : std::vector<std::vector<std::string>>{{"2022", "2023"},
                                                                  {"Jan", "Feb"},
                                                                  {"Monday", "Tuesday"},
                                                                  {"train", "test"},
                                                                  {"2022Q1", "2022Q2"}}) {
    EXPECT_EQ(notes_on(file_of({blocks(values, 10)})), "") << values[0];
  }
  EXPECT_EQ(notes_on(file_of({blocks({"Rome", "Oslo"}, 10), daily(20)})), "") << "one series";
  EXPECT_EQ(notes_on(file_of({blocks({"a", "b", "c", "d"}, 4)})), "") << "too short for series";
  RowFile stores = file_of({blocks({"1", "2"}, 10)});
  EXPECT_EQ(notes_on(stores), "") << "may be years, or parts";
  stores.names = {"Store", "sales"};
  EXPECT_THAT(notes_on(stores), HasSubstr("column 1 ('Store') holds '1' before line 11"));
}

// As the turbines of C-MAPSS: a number of the engine, and cycles from 1 on.
TEST(TimeOrder, SeriesWhoseRowsAreCountedAnewAreTold) {
  const auto said = [](const std::vector<int>& lengths) {
    std::vector<std::string> units, cycles;
    for (size_t unit = 0; unit < lengths.size(); ++unit) {
      for (int i = 1; i <= lengths[unit]; ++i) {
        units.push_back(fmt::format("{}", unit + 1));
        cycles.push_back(fmt::format("{}", i));
      }
    }
    return notes_on(file_of({units, cycles}));
  };
  EXPECT_THAT(said({30, 41, 25}),
              HasSubstr("column 1 holds '1' before line 31 and '2' from there"));
  EXPECT_EQ(said({31, 28, 31, 30, 12}), "") << "days of months";
  EXPECT_EQ(said({12, 12, 12, 5}), "") << "months of years";
}

}  // namespace
}  // namespace whisker::test
