#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "probe/probe.h"

namespace tombolo::probe {
namespace {

TEST(Tournament, LetsEveryPairMeetExactlyOnceInRoundsOfDisjointPairs) {
  for (int players = 0; players <= 17; ++players) {
    auto rounds = tournament(players);
    std::set<std::pair<int, int>> met;
    for (const auto& round : rounds) {
      std::set<int> busy;
      for (auto [left, right] : round) {
        EXPECT_LT(left, right);
        EXPECT_GE(left, 0);
        EXPECT_LT(right, players);
        EXPECT_TRUE(busy.insert(left).second) << players << " players: " << left << " plays twice in a round";
        EXPECT_TRUE(busy.insert(right).second)
            << players << " players: " << right << " plays twice in a round";
        EXPECT_TRUE(met.emplace(left, right).second) << left << " and " << right << " meet twice";
      }
    }
    EXPECT_EQ(met.size(), static_cast<std::size_t>(players * std::max(players - 1, 0) / 2)) << players;
  }
}

TEST(Tournament, NeedsAsFewRoundsAsPossible) {
  EXPECT_EQ(tournament(1).size(), 0U);
  EXPECT_EQ(tournament(2).size(), 1U);
  EXPECT_EQ(tournament(4).size(), 3U);
  EXPECT_EQ(tournament(5).size(), 5U);
  EXPECT_EQ(tournament(8).size(), 7U);
}

TEST(Tournament, RejectsNegativeNumbers) {
  EXPECT_THROW(tournament(-1), Error);
}

}  // namespace
}  // namespace tombolo::probe
