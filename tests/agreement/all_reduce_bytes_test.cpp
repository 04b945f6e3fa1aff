// The planner charges an all-reduce with the bytes that the collective engine's schedules really send. The
// two rooms do not know each other, so nothing but this test keeps them equal.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/randomized_test.h"
#include "collectives/schedule/algorithm.h"
#include "collectives/schedule/algorithms/doubling_all_reduce.h"
#include "collectives/schedule/algorithms/ring_all_reduce.h"
#include "collectives/schedule/algorithms/two_level/two_level_all_reduce.h"
#include "planner/cost/all_reduce.h"

namespace tombolo {
namespace {

using planner::AllReduce;
using planner::MemberLocation;
using planner::Routing;

/// Bytes by sending and receiving member.
using Traffic = std::map<std::pair<int, int>, double>;

constexpr std::size_t kElement = 4;

collectives::RankMap map_of(const std::vector<MemberLocation>& members, int rank) {
  std::vector<collectives::RankLocation> locations;
  for (const MemberLocation& member : members)
    locations.push_back({"host" + std::to_string(member.host), "cluster" + std::to_string(member.cluster)});
  return collectives::RankMap::make(rank, locations);
}

Traffic sent_by_engine(const collectives::Algorithm& algorithm, const std::vector<MemberLocation>& members,
                       std::size_t elements) {
  Traffic traffic;
  for (int rank = 0; rank < static_cast<int>(members.size()); ++rank) {
    const collectives::Problem problem{.count = elements, .element_bytes = kElement};
    const auto schedule = algorithm.build(map_of(members, rank), problem, {}, false);
    for (const collectives::Step& step : schedule.steps)
      if (step.kind == collectives::StepKind::kSend)
        traffic[{rank, step.peer}] += static_cast<double>(step.bytes);
  }
  return traffic;
}

Traffic charged_by_planner(const AllReduce& all_reduce, std::size_t elements) {
  Traffic traffic;
  for (const planner::Transfer& transfer : all_reduce.transfers)
    traffic[{transfer.from, transfer.to}] += transfer.fraction * static_cast<double>(elements * kElement);
  return traffic;
}

/// `tolerance` in bytes: shards are cut between elements, fractions are not.
void expect_equal(const Traffic& engine, const Traffic& planner, double tolerance) {
  Traffic difference = engine;
  for (const auto& [edge, bytes] : planner) difference[edge] -= bytes;
  for (const auto& [edge, bytes] : difference)
    EXPECT_NEAR(bytes, 0, tolerance) << "from member " << edge.first << " to " << edge.second
                                     << ", of which the planner knows "
                                     << (planner.contains(edge) ? planner.at(edge) : 0);
}

/// Members on up to 4 clusters of up to 3 hosts, in any order.
std::vector<MemberLocation> random_members(std::mt19937& random) {
  const auto below = [&](int count) { return std::uniform_int_distribution(0, count - 1)(random); };
  const int clusters = 1 + below(4);
  std::vector<MemberLocation> members(static_cast<std::size_t>(2 + below(11)));
  for (MemberLocation& member : members) {
    member.cluster = below(clusters);
    member.host = 3 * member.cluster + below(3);
  }
  return members;
}

std::string text_of(const std::vector<MemberLocation>& members) {
  std::string text = "members on cluster/host:";
  for (const MemberLocation& member : members)
    text += " " + std::to_string(member.cluster) + "/" + std::to_string(member.host);
  return text;
}

/// What the engine takes for a vector of so many elements unless it is told otherwise.
const collectives::Algorithm& chosen_by_engine(const std::vector<MemberLocation>& members, Routing routing,
                                               std::size_t elements) {
  collectives::RankMap map = map_of(members, 0);
  map.uniform_links = routing == Routing::kShared;
  return collectives::choose_algorithm(collectives::Collective::kAllReduce, collectives::kAutomatic, map,
                                       {.count = elements, .element_bytes = kElement}, {});
}

/// Large enough for several segments, and not a multiple of any number of members.
constexpr std::size_t kElements = 1'000'003;
/// A shard's border is off by less than an element per segment and cut.
constexpr double kTolerance = kElement * 2000.0;

TEST(AllReduceBytes, ARingsAreThoseOfTheEnginesSchedule) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(60); ++round) {
    const auto members = random_members(random);
    SCOPED_TRACE(text_of(members));
    expect_equal(sent_by_engine(collectives::kRingAllReduce, members, kElements),
                 charged_by_planner(planner::ring_all_reduce_of(members), kElements), kTolerance);
  }
}

TEST(AllReduceBytes, TwoLevelsAreThoseOfTheEnginesSchedule) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(60); ++round) {
    const auto members = random_members(random);
    SCOPED_TRACE(text_of(members));
    expect_equal(sent_by_engine(collectives::kTwoLevelAllReduce, members, kElements),
                 charged_by_planner(planner::two_level_all_reduce_of(members), kElements), kTolerance);
  }
}

TEST(AllReduceBytes, TheChoiceByRoutingIsTheEngines) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(60); ++round) {
    const auto members = random_members(random);
    for (const Routing routing : {Routing::kPerPeer, Routing::kShared}) {
      SCOPED_TRACE(text_of(members) + (routing == Routing::kShared ? ", shared" : ", per peer"));
      expect_equal(sent_by_engine(chosen_by_engine(members, routing, kElements), members, kElements),
                   charged_by_planner(planner::all_reduce_of(members, routing), kElements), kTolerance);
    }
  }
}

TEST(AllReduceBytes, OfASmallVectorBetweenTwoRanksAreThoseOfDoubling) {
  for (const int cluster : {0, 1})
    for (const Routing routing : {Routing::kPerPeer, Routing::kShared}) {
      const std::vector<MemberLocation> members = {{0, 0}, {cluster, 1}};
      const collectives::Algorithm& chosen = chosen_by_engine(members, routing, 4096);
      EXPECT_EQ(chosen.name, collectives::kDoublingAllReduce.name);
      expect_equal(sent_by_engine(chosen, members, 4096),
                   charged_by_planner(planner::all_reduce_of(members, routing), 4096), 0);
    }
}

}  // namespace
}  // namespace tombolo
