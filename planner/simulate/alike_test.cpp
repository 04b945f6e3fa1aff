#include "planner/simulate/alike.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace tombolo::planner {
namespace {

/// Replicas that each send through a NIC of their own and a link that all share.
struct Senders {
  explicit Senders(int count, double odd_capacity = 10) {
    const auto link = engine.add_resource(100);
    for (int replica = 0; replica < count; ++replica) {
      const auto nic = engine.add_resource(replica == count - 1 ? odd_capacity : 10);
      alike.add_replica(Colour().add(1));
      alike.add_transfer(Colour().add(7), replica);
      alike.add_part(1, 50, std::array{nic, link, FluidEngine::kNone});
    }
  }

  FluidEngine engine;
  AlikeTransfers alike;
};

TEST(AlikeTransfers, CountHowOftenAClassIsOnAResource) {
  Senders senders(5);
  ASSERT_TRUE(senders.alike.find(senders.engine));
  EXPECT_EQ(senders.alike.copies(), (std::vector<int>{5, 0, 0, 0, 0}));
  EXPECT_TRUE(senders.alike.is_first(0));
  EXPECT_FALSE(senders.alike.is_first(1));
  const auto& parts = senders.alike.for_all(0).parts;
  ASSERT_EQ(parts.size(), 1U);
  ASSERT_EQ(parts[0].uses.size(), 2U);
  EXPECT_EQ(parts[0].uses[0].count, 1) << "its own NIC";
  EXPECT_EQ(parts[0].uses[1].count, 5) << "the link";
}

TEST(AlikeTransfers, TheLongestLatenciesOfAClassCountForAllOfIt) {
  Senders senders(2);
  senders.alike.add_latencies({0.25, 0.25});
  senders.alike.add_replica(Colour().add(1));
  senders.alike.add_transfer(Colour().add(7), 2);
  senders.alike.add_part(1, 50, std::array{senders.engine.add_resource(10), 0, FluidEngine::kNone});
  senders.alike.add_latencies({0, 0.5});
  ASSERT_TRUE(senders.alike.find(senders.engine));
  ASSERT_EQ(senders.alike.copies(), (std::vector<int>{3, 0, 0}));
  EXPECT_EQ(senders.alike.for_all(0).latencies.in_clusters, 0.25);
  EXPECT_EQ(senders.alike.for_all(0).latencies.all, 0.5);
}

TEST(AlikeTransfers, OneThatDiffersIsAClassOfItsOwn) {
  Senders senders(5, 9);
  ASSERT_TRUE(senders.alike.find(senders.engine));
  EXPECT_EQ(senders.alike.copies(), (std::vector<int>{4, 0, 0, 0, 1}));
  EXPECT_EQ(senders.alike.for_all(0).parts[0].uses[1].count, 4);
  EXPECT_EQ(senders.alike.for_all(4).parts[0].uses[1].count, 1);
  Senders two(2, 9);
  EXPECT_FALSE(two.alike.find(two.engine)) << "none is like another";
}

TEST(AlikeTransfers, ATeamIsLikeAnotherOnlyAsAWhole) {
  for (const int in_a_team : {1, 2, 4}) {
    Senders senders(8, 9);
    for (int first = 0; first < 8; first += in_a_team) {
      std::vector<int> team;
      for (int replica = first; replica < first + in_a_team; ++replica) team.push_back(replica);
      senders.alike.add_team(std::move(team));
    }
    ASSERT_TRUE(in_a_team == 4 ? !senders.alike.find(senders.engine) : senders.alike.find(senders.engine));
    if (in_a_team == 1) {
      EXPECT_EQ(senders.alike.copies().front(), 7);
    } else if (in_a_team == 2) {
      EXPECT_EQ(senders.alike.copies(), (std::vector<int>{3, 3, 0, 0, 0, 0, 1, 1}));
    }
  }
}

TEST(AlikeTransfers, EqualPartsOfATransferAreOne) {
  FluidEngine engine;
  AlikeTransfers alike;
  const auto link = engine.add_resource(100);
  for (int replica = 0; replica < 2; ++replica) {
    alike.add_replica(Colour().add(1));
    alike.add_transfer(Colour().add(7), replica);
    for (int rail = 0; rail < 4; ++rail) alike.add_part(0.25, 50, std::array{engine.add_resource(10), link});
  }
  ASSERT_TRUE(alike.find(engine));
  ASSERT_EQ(alike.for_all(0).parts.size(), 1U);
  EXPECT_EQ(alike.for_all(0).parts[0].uses[1].count, 8);
}

TEST(Colour, SumsInAnotherOrderAreEqual) {
  EXPECT_EQ(Colour().add(0.1 + 0.2 + 0.3).value(), Colour().add(0.3 + 0.2 + 0.1).value());
  EXPECT_EQ(Colour().add(1.0).value(), Colour().add(1.0 - 1e-15).value());
  EXPECT_NE(Colour().add(1.0).value(), Colour().add(1.0 + 1e-9).value());
  EXPECT_NE(Colour().add(1).add(2).value(), Colour().add(2).add(1).value());
}

}  // namespace
}  // namespace tombolo::planner
