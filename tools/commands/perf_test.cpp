// What tombolo perf refuses. tests/process/perf_test.py runs benchmarks with it.
#include <gtest/gtest.h>

#include "tools/cli/testing_command.h"

namespace tombolo::tools {
namespace {

class PerfCommand : public CommandTest {};

TEST_F(PerfCommand, NamesABenchmarkThatIsNotThereAndWhereItLooked) {
  refuses({"perf", "all_induce"}, {"there is no benchmark 'all_induce' in /"});
  refuses({"perf", "../all_reduce"}, {"there is no benchmark '../all_reduce'"});
}

TEST_F(PerfCommand, NeedsTheNameOfABenchmark) {
  refuses({"perf"}, {"benchmark", "required"});
  refuses({"perf", "--ranks", "2"}, {"benchmark", "required"});
}

TEST_F(PerfCommand, RefusesWaysToStartRanksThatCannotBe) {
  refuses({"perf", "--ranks", "0", "all_reduce"}, {"--ranks"});
  refuses({"perf", "--routing", "best", "all_reduce"}, {"--routing", "best"});
  refuses({"perf", "--timeout", "0", "all_reduce"}, {"--timeout"});
}

}  // namespace
}  // namespace tombolo::tools
