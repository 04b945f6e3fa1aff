// The engine's cost model beside simulated time, on random networks: what its choices lose.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/format.h"
#include "bench/schedule/simulated_time.h"
#include "collectives/schedule/choice.h"

namespace tombolo::bench {
namespace {

using namespace collectives;

constexpr Collective kWithAChoice[] = {Collective::kAllReduce, Collective::kReduceScatter,
                                       Collective::kAllGather, Collective::kBroadcast,
                                       Collective::kReduce,    Collective::kAllToAll};

class RandomCall {
 public:
  explicit RandomCall(std::mt19937& random) : random_(random) {
    network.clusters = pick(1, 3);
    network.hosts = pick(network.clusters > 1 ? 1 : 2, 8);
    network.ranks = pick(1, 4);
    network.nic_rate = between(1e9, 5e10);
    network.uplink_rate = network.nic_rate * between(0.05, 2);
    network.memory_rate = between(5e9, 2e10);
    network.message_time = between(0.5e-6, 3e-6);
    network.latency_inside = between(2e-6, 5e-5);
    network.latency_across = network.latency_inside * between(5, 200);
    collective = kWithAChoice[static_cast<std::size_t>(pick(0, 5))];
    const double bytes = between(64, 64 << 20);
    const bool whole = collective == Collective::kAllReduce || collective == Collective::kBroadcast ||
                       collective == Collective::kReduce;
    problem.element_bytes = sizeof(float);
    problem.count = std::max<std::size_t>(
        1, static_cast<std::size_t>(bytes / (whole ? 1 : network.size())) / sizeof(float));
    const auto locations = network.locations();
    for (int rank = 0; rank < network.size(); ++rank) maps.push_back(RankMap::make(rank, locations));
  }
  double seconds(const Algorithm& algorithm, const Tuning& tuning) const {
    std::vector<Schedule> schedules;
    for (const RankMap& map : maps) schedules.push_back(algorithm.build(map, problem, tuning, false));
    return simulate(network, schedules).seconds;
  }

  std::string describe() const {
    return fmt::format("{} of {} bytes, {} x {} x {}", collective_name(collective), problem.bytes(),
                       network.clusters, network.hosts, network.ranks);
  }

  Network network;
  Collective collective = Collective::kAllReduce;
  Problem problem;
  std::vector<RankMap> maps;

 private:
  int pick(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }
  double between(double least, double most) {
    return std::exp(std::uniform_real_distribution(std::log(least), std::log(most))(random_));
  }
  std::mt19937& random_;
};

/// The mean of logarithms.
struct Mean {
  double sum = 0, largest = 0;
  int count = 0;
  void add(double ratio) {
    sum += std::log(ratio);
    largest = std::max(largest, ratio);
    ++count;
  }
  double value() const { return std::exp(sum / count); }
};

TEST(CostModel, LosesLittleBesideTheBestWayInSimulatedTime) {
  std::mt19937 random(1);  // the same networks each time: this shows what is lost, and looks for no surprise
  Mean rules, model;
  for (int run = 0; run < 200; ++run) {
    const RandomCall call(random);
    const JobCosts costs(call.maps[0], costs_of(call.network));
    Tuning tuning;
    tuning.crossing_bytes = tuning.latency_bytes = costs.filling(Level::kBetween);
    Situation situation{.ranks = call.maps[0], .tuning = tuning};
    const Choice by_rules = choose(call.collective, call.problem, situation);
    situation.costs = &costs;
    const Choice by_model = choose(call.collective, call.problem, situation);
    const double rules_take = call.seconds(*by_rules.algorithm, by_rules.tuning);
    const double model_takes = call.seconds(*by_model.algorithm, by_model.tuning);
    double best = std::min(rules_take, model_takes);
    for (const Algorithm* one : algorithms()) {
      if (one->collective != call.collective || !one->is_possible(call.maps[0], call.problem)) continue;
      const double seconds = call.seconds(*one, tuning);
      best = std::min(best, seconds);
      ASSERT_NE(one->cost, nullptr) << one->name;
    }
    rules.add(rules_take / best);
    model.add(model_takes / best);
  }
  EXPECT_LT(model.value(), 1.15);
  EXPECT_LT(model.value(), rules.value());
  fmt::print("over the best way: by the model {:.3f} (most {:.2f}), by rules {:.3f} (most {:.2f})\n",
             model.value(), model.largest, rules.value(), rules.largest);
}

/// Rings of 64 hosts take 126 steps.
TEST(CostModel, TakesFewerStepsAmongManyHosts) {
  Network network;
  network.clusters = 1;
  network.hosts = 64;
  network.ranks = 1;
  const RankMap map = RankMap::make(0, network.locations());
  const JobCosts costs(map, costs_of(network));
  const Tuning tuning;
  const Situation situation{.ranks = map, .tuning = tuning, .costs = &costs};
  const Problem problem{std::size_t{6} << 10, sizeof(float)};
  const Choice choice = choose(Collective::kAllReduce, problem, situation);
  EXPECT_EQ(choice.name(), "doubling");
  EXPECT_EQ(choice.reason, Reason::kModel);
  const std::string why = explain(choice, Collective::kAllReduce, problem, situation);
  EXPECT_TRUE(why.starts_with("by the cost model doubling ")) << why;
  EXPECT_TRUE(why.ends_with(" ms, which the rules would take")) << why;
  EXPECT_NE(why.find("; ring 1.1"), std::string::npos) << why;
}

/// A long link stays full: what is on its way does not wait for what came before it.
TEST(CostModel, LetsAnAllReduceFillALongLink) {
  for (const int clusters : {2, 3}) {
    Network network;
    network.clusters = clusters;
    network.hosts = 4;
    network.ranks = 1;
    network.uplink_rate = 1.25e9;
    network.latency_across = 0.01;
    std::vector<RankMap> maps;
    for (int rank = 0; rank < network.size(); ++rank)
      maps.push_back(RankMap::make(rank, network.locations()));
    const JobCosts costs(maps[0], costs_of(network));
    EXPECT_EQ(costs.filling(Level::kBetween), 12'500'000U);
    const Problem problem{std::size_t{32} << 20, sizeof(float)};
    const auto seconds = [&](std::size_t crossing) {
      Tuning tuning;
      tuning.crossing_bytes = crossing;
      const Algorithm* two_level = find_algorithm(Collective::kAllReduce, "two-level");
      std::vector<Schedule> schedules;
      for (const RankMap& map : maps) schedules.push_back(two_level->build(map, problem, tuning, false));
      return simulate(network, schedules).seconds;
    };
    const double least = lower_bound(network, Collective::kAllReduce, static_cast<double>(problem.bytes())) +
                         2 * (clusters - 1) * network.latency_across;
    EXPECT_LT(seconds(costs.filling(Level::kBetween)), 1.1 * least) << clusters;
    EXPECT_GT(seconds(0), 3 * least) << clusters << " clusters: the test shows nothing";
  }
}

}  // namespace
}  // namespace tombolo::bench
