// The planner expects of the collective engine what a communicator would really take: both ask the same
// functions for an algorithm, and this test holds what they ask them with to each other.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/randomized_test.h"
#include "collectives/discovery/network_facts.h"
#include "collectives/schedule/choice.h"
#include "planner/cost/engine_reduction.h"

namespace tombolo {
namespace {

using collectives::Choice;
using collectives::JobCosts;
using collectives::RankLocation;
using collectives::RankMap;

/// Up to three clusters of up to four hosts, every link with a rate of its own; some say no latency.
topology::ClusterFile random_cluster(std::mt19937& random) {
  const auto pick = [&](int least, int most) { return std::uniform_int_distribution(least, most)(random); };
  topology::ClusterFile file;
  const int clusters = pick(1, 3);
  for (int cluster = 0; cluster < clusters; ++cluster) {
    const int hosts = pick(1, 4);
    for (int host = 0; host < hosts; ++host) {
      topology::Host& one = file.hosts.emplace_back();
      one.cluster = std::string(1, static_cast<char>('a' + cluster));
      one.name = one.cluster + std::to_string(host);
      one.nics.emplace_back().name = "eth";
    }
  }
  const double latency = pick(0, 3) == 0 ? 0 : 1e-5;
  for (const topology::Host& from : file.hosts)
    for (const topology::Host& to : file.hosts) {
      if (from.name == to.name) continue;
      const bool inside = from.cluster == to.cluster;
      file.links.push_back({from.name, "eth", to.name, "eth", (inside ? 1e9 : 1e8) * pick(1, 4),
                            (inside ? 1 : 100) * latency, true});
    }
  if (clusters > 1 && pick(0, 1) == 0) {
    topology::SharedLink shared{"uplink", {}, {}, 1e8};
    for (const topology::Host& host : file.hosts)
      (host.cluster == "a" ? shared.from : shared.to).push_back({host.name, "eth"});
    file.shared_links.push_back(shared);
  }
  return file;
}

/// What a communicator of such ranks takes, as it comes to know its network (collectives/engine/).
struct OfCommunicator {
  Choice choice;
  std::optional<double> seconds;
};

OfCommunicator choice_of_communicator(const topology::ClusterFile& file,
                                      const std::vector<RankLocation>& locations, std::size_t elements) {
  const collectives::Discovery discovery;
  const auto facts = collectives::network_facts(
      {.locations = locations, .declared = true, .discovery = discovery, .cluster_file = &file});
  const auto known = collectives::network_costs(facts);
  const RankMap map = RankMap::make(0, locations);
  std::optional<JobCosts> costs;
  if (known) costs.emplace(map, *known);
  collectives::Tuning tuning;
  collectives::tune_to_links(tuning, map, costs ? &*costs : nullptr);
  const collectives::Problem problem{.count = elements, .element_bytes = sizeof(float)};
  OfCommunicator result{collectives::choose(collectives::Collective::kAllReduce, problem,
                                            {.ranks = map,
                                             .tuning = tuning,
                                             .host_memory = facts.from == collectives::KnownFrom::kOneHost,
                                             .costs = costs ? &*costs : nullptr}),
                        std::nullopt};
  if (costs && !result.choice.through_host_memory())
    result.seconds =
        1e-9 * static_cast<double>(result.choice.algorithm->cost(*costs, problem, result.choice.tuning));
  return result;
}

TEST(EngineChoice, ThatThePlannerExpectsIsTheCommunicators) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(120); ++round) {
    const topology::ClusterFile file = random_cluster(random);
    const auto pick = [&](std::size_t below) {
      return std::uniform_int_distribution<std::size_t>(0, below - 1)(random);
    };
    std::vector<int> members;
    std::vector<RankLocation> locations;
    std::string where = "members on";
    const std::size_t count = 2 + pick(7);
    for (std::size_t member = 0; member < count; ++member) {
      const std::size_t host = pick(file.hosts.size());
      members.push_back(static_cast<int>(host));
      locations.push_back({file.hosts[host].name, file.hosts[host].cluster});
      where += " " + file.hosts[host].name;
    }
    SCOPED_TRACE(where);
    const planner::ClusterView view(file, "per-peer", {});
    const planner::EngineModel model(view, members);
    for (const std::size_t elements : {100U, 20'000U, 400'000U, 8'000'000U}) {
      const planner::EngineCall expected = model.all_reduce(static_cast<double>(elements * sizeof(float)));
      const OfCommunicator taken = choice_of_communicator(file, locations, elements);
      EXPECT_EQ(expected.choice.name(), taken.choice.name()) << elements;
      EXPECT_EQ(expected.choice.reason, taken.choice.reason) << elements;
      EXPECT_EQ(expected.choice.tuning.segment_bytes, taken.choice.tuning.segment_bytes) << elements;
      EXPECT_EQ(expected.choice.tuning.crossing_bytes, taken.choice.tuning.crossing_bytes) << elements;
      if (!taken.seconds) continue;
      EXPECT_DOUBLE_EQ(expected.seconds, *taken.seconds) << elements;
    }
  }
}

}  // namespace
}  // namespace tombolo
