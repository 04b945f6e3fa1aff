#include "bench/perf/watchdog.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace tombolo::bench {
namespace {

class PerfWatchdog : public ::testing::Test {
 protected:
  api::Communicator communicator_{1, api::make_unique_id(), 0};
};

TEST_F(PerfWatchdog, LeavesACommunicatorAloneThatIsDoneInTime) {
  {
    const Watchdog off(communicator_, 0);
    const Watchdog on(communicator_, 3600);  // its end does not wait for it
    communicator_.barrier();
  }
  EXPECT_EQ(communicator_.async_error(), tomboloSuccess);
  communicator_.barrier();
}

TEST_F(PerfWatchdog, AbortsOneThatTakesTooLong) {
  const Watchdog watchdog(communicator_, 1);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (communicator_.async_error() == tomboloSuccess && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(communicator_.async_error(), tomboloAborted);
  EXPECT_THROW(communicator_.barrier(), api::Error);
}

}  // namespace
}  // namespace tombolo::bench
