#include "transport/measure/round_robin.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace tombolo::transport::measure {
namespace {

TEST(RoundRobin, PairsEveryTwoExactlyOnceInRoundsOfDisjointPairs) {
  for (int participants = 0; participants <= 17; ++participants) {
    auto rounds = round_robin(participants);
    std::set<std::pair<int, int>> met;
    for (const auto& round : rounds) {
      std::set<int> busy;
      for (auto [left, right] : round) {
        EXPECT_LT(left, right);
        EXPECT_GE(left, 0);
        EXPECT_LT(right, participants);
        EXPECT_TRUE(busy.insert(left).second)
            << participants << " participants: " << left << " is twice in a round";
        EXPECT_TRUE(busy.insert(right).second)
            << participants << " participants: " << right << " is twice in a round";
        EXPECT_TRUE(met.emplace(left, right).second) << left << " and " << right << " are paired twice";
      }
    }
    EXPECT_EQ(met.size(), static_cast<std::size_t>(participants * std::max(participants - 1, 0) / 2))
        << participants;
  }
}

TEST(RoundRobin, NeedsAsFewRoundsAsPossible) {
  EXPECT_EQ(round_robin(1).size(), 0U);
  EXPECT_EQ(round_robin(2).size(), 1U);
  EXPECT_EQ(round_robin(4).size(), 3U);
  EXPECT_EQ(round_robin(5).size(), 5U);
  EXPECT_EQ(round_robin(8).size(), 7U);
}

TEST(RoundRobin, RejectsNegativeNumbers) {
  EXPECT_THROW(round_robin(-1), Error);
}

}  // namespace
}  // namespace tombolo::transport::measure
