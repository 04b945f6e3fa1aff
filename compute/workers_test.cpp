#include "compute/workers.h"

#include <gtest/gtest.h>

#include <set>

namespace tombolo::compute {
namespace {

TEST(Workers, RunEveryPieceOnceOnAThreadOfItsOwn) {
  Workers workers;
  for (const int count : {1, 4, 2, 3, 4, 1}) {
    std::vector<int> calls(8, 0);
    std::vector<std::thread::id> threads(8);
    workers.run(count, [&](int index) {
      ++calls[static_cast<std::size_t>(index)];
      threads[static_cast<std::size_t>(index)] = std::this_thread::get_id();
    });
    for (int index = 0; index < 8; ++index)
      EXPECT_EQ(calls[static_cast<std::size_t>(index)], index < count ? 1 : 0);
    EXPECT_EQ(threads[0], std::this_thread::get_id());
    EXPECT_EQ(std::set(threads.begin(), threads.begin() + count).size(), static_cast<std::size_t>(count));
  }
}

TEST(Workers, SeeWhatTheCallerWroteAndTheCallerSeesWhatTheyWrote) {
  Workers workers;
  std::vector<long> values(3, 0);
  for (long round = 1; round <= 200; ++round) {
    workers.run(3, [&](int index) { values[static_cast<std::size_t>(index)] += round; });
    ASSERT_EQ(values, std::vector<long>(3, round * (round + 1) / 2));
  }
}

}  // namespace
}  // namespace tombolo::compute
