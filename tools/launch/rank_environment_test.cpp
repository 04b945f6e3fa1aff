#include "tools/launch/rank_environment.h"

#include <gtest/gtest.h>

namespace tombolo::tools {
namespace {

TEST(RankEnvironment, KeepsTheCallersVariablesButNotAnotherLaunchersRankNumbers) {
  const char* const environment[] = {
      "HOME=/root", "EMPTY=", "NO_EQUALS", "SLURM_PROCID=7", "OMPI_COMM_WORLD_SIZE=8", "A=b=c", nullptr};
  EXPECT_EQ(inherited_variables(environment, 1),
            (Variables{{"HOME", "/root"}, {"EMPTY", ""}, {"A", "b=c"}, {"WORLD_SIZE", "1"}}));
}

TEST(RankEnvironment, LimitsBlasThreadsOfSeveralRanksUnlessTheCallerDoes) {
  const char* const nothing[] = {nullptr};
  const char* const chosen[] = {"OMP_NUM_THREADS=3", nullptr};
  EXPECT_EQ(inherited_variables(nothing, 2), (Variables{{"OMP_NUM_THREADS", "1"}, {"WORLD_SIZE", "2"}}));
  EXPECT_EQ(inherited_variables(chosen, 2).at("OMP_NUM_THREADS"), "3");
}

TEST(RankEnvironment, CountsLocalRanksByHost) {
  const std::vector<std::string> hosts{"a", "b", "a", "a"};
  EXPECT_EQ(rank_variables(2, hosts),
            (Variables{{"RANK", "2"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "3"}}));
  EXPECT_EQ(rank_variables(1, hosts),
            (Variables{{"RANK", "1"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}}));
}

TEST(RankEnvironment, WritesLinesAsExecTakesThem) {
  EXPECT_EQ(environment_lines({{"B", "2"}, {"A", "x=y"}}), (std::vector<std::string>{"A=x=y", "B=2"}));
}

}  // namespace
}  // namespace tombolo::tools
