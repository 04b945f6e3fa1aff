#include "planner/cost/all_reduce.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/randomized_test.h"

namespace tombolo::planner {
namespace {

double crossing(const AllReduce& all_reduce, const std::vector<MemberLocation>& members, int from, int to) {
  double sum = 0;
  for (const Transfer& transfer : all_reduce.transfers)
    if (members[static_cast<std::size_t>(transfer.from)].cluster == from &&
        members[static_cast<std::size_t>(transfer.to)].cluster == to)
      sum += transfer.fraction;
  return sum;
}

TEST(AllReduceTraffic, OneMemberSendsNothing) {
  EXPECT_TRUE(all_reduce_of({{0, 0}}, Routing::kPerPeer).transfers.empty());
}

TEST(AllReduceTraffic, TwoMembersSwapTheMessage) {
  for (const int cluster : {0, 1}) {
    const AllReduce pair = all_reduce_of({{0, 0}, {cluster, 1}}, Routing::kPerPeer);
    ASSERT_EQ(pair.transfers.size(), 2u);
    EXPECT_DOUBLE_EQ(pair.transfers[0].fraction, 1);
    EXPECT_DOUBLE_EQ(pair.transfers[1].fraction, 1);
  }
}

TEST(AllReduceTraffic, ARingSendsTwiceTheMessageLessOnePart) {
  const AllReduce ring = all_reduce_of({{0, 0}, {0, 1}, {0, 2}, {0, 3}}, Routing::kPerPeer);
  ASSERT_EQ(ring.transfers.size(), 4u);
  for (const Transfer& transfer : ring.transfers) EXPECT_DOUBLE_EQ(transfer.fraction, 1.5);
  EXPECT_EQ(ring.rounds, 6);
}

TEST(AllReduceTraffic, TheRingVisitsAHostOnce) {
  const AllReduce ring = all_reduce_of({{0, 7}, {0, 8}, {0, 7}, {0, 8}}, Routing::kPerPeer);
  int between = 0;
  for (const Transfer& transfer : ring.transfers) between += transfer.from % 2 != transfer.to % 2;
  EXPECT_EQ(between, 2);
}

TEST(AllReduceTraffic, BetweenTwoClustersTheMessageGoesOnceEachWay) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < 100; ++round) {
    std::vector<MemberLocation> members = {{0, 0}, {1, 1}};
    const int more = std::uniform_int_distribution(0, 7)(random);
    for (int i = 0; i < more; ++i) members.push_back({std::uniform_int_distribution(0, 1)(random), 2 + i});
    const AllReduce two_level = all_reduce_of(members, Routing::kPerPeer);
    EXPECT_NEAR(crossing(two_level, members, 0, 1), 1, 1e-9);
    EXPECT_NEAR(crossing(two_level, members, 1, 0), 1, 1e-9);
    std::map<int, double> size;
    for (const MemberLocation& member : members) ++size[member.cluster];
    for (const int cluster :
         {0, 1})  // all-gather and reduce-scatter: (w - 1) / w of the message per member each
      EXPECT_NEAR(crossing(two_level, members, cluster, cluster), 2 * (size[cluster] - 1), 1e-9);
  }
}

TEST(AllReduceTraffic, OwnersInThreeClustersExchangeInARing) {
  const std::vector<MemberLocation> members = {{0, 0}, {0, 1}, {1, 2}, {1, 3}, {2, 4}, {2, 5}};
  const AllReduce rings = all_reduce_of(members, Routing::kPerPeer);
  EXPECT_NEAR(crossing(rings, members, 0, 1), 4.0 / 3, 1e-9);
  EXPECT_NEAR(crossing(rings, members, 2, 0), 4.0 / 3, 1e-9);
  EXPECT_EQ(crossing(rings, members, 1, 0), 0);
  EXPECT_EQ(rings.rounds, 2 + 4);
}

TEST(AllReduceTraffic, SharedRoutingMakesOneRingThatVisitsAClusterOnce) {
  const std::vector<MemberLocation> members = {{0, 0}, {1, 2}, {0, 1}, {1, 3}};
  const AllReduce ring = all_reduce_of(members, Routing::kShared);
  EXPECT_EQ(ring.transfers.size(), 4u);
  for (const auto& [from, to] : {std::pair(0, 1), std::pair(1, 0), std::pair(0, 0), std::pair(1, 1)})
    EXPECT_DOUBLE_EQ(crossing(ring, members, from, to), 1.5);
  EXPECT_EQ(ring.rounds, 6);
  EXPECT_EQ(all_reduce_of(members, Routing::kPerPeer).rounds, 3);
}

TEST(AllReduceTraffic, ARingInsideAClusterLeavesEachOfItsHostsOnce) {
  const std::vector<MemberLocation> members{{0, 0}, {0, 0}, {0, 1}, {0, 1}, {1, 2}, {1, 3}};
  const AllReduce all = all_reduce_of(members, Routing::kPerPeer);
  EXPECT_TRUE(all.ring);
  EXPECT_EQ(all.rounds, 3);
  double leaving = 0;
  for (const Transfer& transfer : all.transfers) {
    const MemberLocation &from = members[static_cast<std::size_t>(transfer.from)],
                         &to = members[static_cast<std::size_t>(transfer.to)];
    if (from.cluster == 0 && to.cluster == 0 && from.host != to.host) leaving += transfer.fraction;
  }
  EXPECT_DOUBLE_EQ(leaving, 2 * 1.5);
  EXPECT_DOUBLE_EQ(crossing(all, members, 0, 1), 1) << "the message crosses once";
}

}  // namespace
}  // namespace tombolo::planner
