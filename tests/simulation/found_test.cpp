// Plans that once went wrong, for what was mended since.
#include <gtest/gtest.h>

#include "tests/simulation/connection_run.h"

namespace tombolo::simulation {
namespace {

using std::chrono::milliseconds;

/// Host 0 sends, with pauses in which all wait.
Plan with_pauses() {
  Plan plan;
  plan.seed = 1;
  for (int i = 0; i < 5; ++i) plan.messages.push_back({0, 1000, milliseconds(90)});
  return plan;
}

// Its wait handles were ready until the next check, up to 100 ms later, when a stream that it opens was due
// before that, and while streams came that it takes only then.
TEST(Found, AnOwnerSleepsWhileItsFurtherStreamsAreOpened) {
  Plan plan = with_pauses();
  plan.streams = 4;
  EXPECT_EQ(run_connection(plan).wrong, "");
}

TEST(Found, AnOwnerSleepsWhileItsOnlyStreamIsOpenedAgain) {
  Plan plan = with_pauses();
  for (int i = 1; i <= 4; ++i) {
    Fault fault;
    fault.at = i * milliseconds(80);
    plan.faults.push_back(fault);
  }
  EXPECT_EQ(run_connection(plan).wrong, "");
}

}  // namespace
}  // namespace tombolo::simulation
