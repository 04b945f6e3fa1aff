#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <functional>
#include <sstream>

#include "bench/perf/report.h"

namespace tombolo::bench {
namespace {

std::string printed(const std::function<void()>& print) {
  ::testing::internal::CaptureStdout();
  print();
  return ::testing::internal::GetCapturedStdout();
}

/// The half of a line for this result.
std::string half_of(const Result& result, const Flags& flags = {}) {
  return printed([&] { Table(flags).result(result); });
}

Result result_of(double microseconds, double gigabytes) {
  Result result;
  result.measurement.seconds = microseconds * 1e-6;
  result.measurement.wrong = 0;
  result.algorithm_bandwidth = result.bus_bandwidth = gigabytes;
  return result;
}

TEST(PerfTable, FiguresHaveAsManyDecimalsAsThereIsRoomFor) {
  EXPECT_EQ(half_of(result_of(12.25, 1.5)), "    12.25    1.50    1.50       0");
  EXPECT_EQ(half_of(result_of(1234.567, 123.456)), "  1234.57  123.46  123.46       0");
  EXPECT_EQ(half_of(result_of(12345.67, 1234.56)), "  12345.7  1234.6  1234.6       0");
  EXPECT_EQ(half_of(result_of(1234567.8, 123456.7)), "  1234568  123457  123457       0");
  EXPECT_EQ(half_of(result_of(123456789, 1234567)), "  1.2e+08   1e+06   1e+06       0");
  EXPECT_EQ(half_of(result_of(0, 0)), "     0.00    0.00    0.00       0");
}

TEST(PerfTable, SaysWhatWasWrongOrThatNothingWasChecked) {
  Result result = result_of(1, 1);
  result.measurement.wrong = 12345678;
  EXPECT_EQ(half_of(result), "     1.00    1.00    1.00  1.23457e+07");
  result.measurement.wrong.reset();
  EXPECT_EQ(half_of(result), "     1.00    1.00    1.00     N/A");
}

TEST(PerfTable, ShowsProcessorTimeAndIterationsWhereAskedFor) {
  Result result = result_of(9, 1);
  result.measurement.cpu_seconds = 4e-6;
  result.statistics = {1e-6, 3e-6, 2e-6, 2e-6, 3e-6, 3e-6, 1e-6};
  Flags flags;
  flags.cpu_time = flags.per_iteration = true;
  EXPECT_EQ(half_of(result, flags), "     4.00    1.00    1.00       0     1.00     3.00     3.00    50.00");
}

/// The columns' names are above the columns.
TEST(PerfTable, ALineIsAsWideAsItsHeader) {
  for (const bool more : {false, true}) {
    Flags flags;
    flags.per_iteration = more;
    const Table table(flags);
    const std::string header = printed([&] { table.header("all_reduce_perf", {}); });
    std::istringstream lines(header);
    std::string names;
    for (std::string line; std::getline(lines, line);)
      if (line.find("redop") != std::string::npos) names = line;
    Row row;
    row.type = "bfloat16";
    row.op = "sum";
    const std::string line = printed([&] {
      table.begin(row);
      table.result(result_of(1, 1));
      table.result(result_of(1, 1));
      table.end();
    });
    EXPECT_EQ(line.find_last_not_of(" \n"), names.find_last_not_of(' ')) << names << '\n' << line;
    EXPECT_EQ(names.find("redop") + 5, line.find("sum") + 3) << names << '\n' << line;
  }
}

TEST(PerfTable, TheHeaderSaysHowItWasMeasured) {
  Flags flags;
  flags.step_bytes = 512;
  flags.blocking = Blocking::kBarrierEachCall;
  Device device;
  device.rank = 3;
  device.pid = 77;
  device.host[0] = 'h';
  std::string header = printed([&] { Table(flags).header("gather_perf", {device}); });
  EXPECT_NE(header.find("# Collective test starting: gather_perf\n"), std::string::npos) << header;
  EXPECT_NE(header.find("step: 512(bytes)"), std::string::npos) << header;
  EXPECT_NE(header.find("barrier after each inner iteration"), std::string::npos) << header;
  EXPECT_NE(header.find("#  Rank  3 Group  0 Pid     77 on          h device  0 [host memory] CPU\n"),
            std::string::npos)
      << header;
  EXPECT_EQ(header.find("Parallel Init"), std::string::npos);
  flags.step_factor = 4;
  flags.blocking = Blocking::kBarrierEachIteration;
  flags.parallel_init = true;
  header = printed([&] { Table(flags).header("gather_perf", {}); });
  EXPECT_NE(header.find("step: 4(factor)"), std::string::npos) << header;
  EXPECT_NE(header.find("time excludes barrier"), std::string::npos) << header;
  EXPECT_NE(header.find("# Parallel Init Enabled\n"), std::string::npos) << header;
}

TEST(PerfTable, TheFooterJudges) {
  const Flags flags;
  Summary summary;
  summary.average_bus_bandwidth = 2.5;
  const auto footer = [&] { return printed([&] { Table(flags).footer("x_perf", summary); }); };
  EXPECT_EQ(footer(),
            "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 2.5 \n#\n# Collective test concluded: "
            "x_perf\n#\n\n");
  summary.failed_checks = 3;
  summary.least_allowed_bandwidth = 10;
  EXPECT_NE(footer().find("# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 2.5 FAILED\n"),
            std::string::npos);
  summary.least_allowed_bandwidth = 1;
  EXPECT_NE(footer().find(": 2.5 OK\n"), std::string::npos);
}

TEST(PerfTable, TheTimeOfDayIsLocal) {
  const char* before = std::getenv("TZ");
  const std::string old = before == nullptr ? "" : before;
  ::setenv("TZ", "UTC", 1);
  ::tzset();
  EXPECT_EQ(time_of_day(0), "1970-01-01 00:00:00");
  ::setenv("TZ", "UTC-2", 1);  // two hours ahead, as POSIX writes it
  ::tzset();
  EXPECT_EQ(time_of_day(86399), "1970-01-02 01:59:59");
  if (before == nullptr) {
    ::unsetenv("TZ");
  } else {
    ::setenv("TZ", old.c_str(), 1);
  }
  ::tzset();
}

TEST(Table, ComparesMediansWithBounds) {
  Row one;
  one.bytes = 1024;
  one.bound = {1e-3, "1 KiB out of A, 8 Mbit/s"};
  one.out_of_place.measurement.median = 1.25e-3;
  one.in_place.measurement.median = 2e-3;
  Row none;
  none.bytes = 2048;
  const std::string text = compared_with_bounds({one, none});
  EXPECT_NE(text.find("1024     1000.00          1.25      2.00  1 KiB out of A, 8 Mbit/s\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("2048        none\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace tombolo::bench
