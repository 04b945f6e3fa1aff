#include "planner/explain/excluded.h"

#include <gtest/gtest.h>

namespace tombolo::planner {
namespace {

TEST(Excluded, SentencesThatDifferInNumbersAreCounted) {
  EXPECT_EQ(summary_of_excluded({"pipeline 2 x data 1: 7 layers do not divide into 2 stages",
                                 "pipeline 4 x data 1: 7 layers do not divide into 4 stages",
                                 "pipeline 4 x data 1: 7 layers do not divide into 4 stages",
                                 "pipeline 1 x data 4: a batch of 3 rows does not divide into 4 replicas"}),
            "pipeline 2 x data 1: 7 layers do not divide into 2 stages (and 1 like it); "
            "pipeline 1 x data 4: a batch of 3 rows does not divide into 4 replicas");
}

TEST(Excluded, NothingIsSaidInWordsToo) {
  EXPECT_EQ(summary_of_excluded({}), "what the job fixes leaves none to try");
}

}  // namespace
}  // namespace tombolo::planner
