#include "planner/strategies.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "planner/index.h"
#include "planner/testing.h"

namespace tombolo::planner {
namespace {

using namespace testing;

/// Hosts of one or two devices of random speed, links of random rates in each direction.
topology::ClusterFile random_cluster(std::mt19937_64& random, int devices) {
  std::uniform_real_distribution<> factor(0.3, 3);
  topology::ClusterFile cluster;
  for (int left = devices; left > 0;) {
    topology::Host host;
    host.name = "h" + std::to_string(cluster.hosts.size());
    host.cluster = random() % 2 == 0 ? "a" : "b";
    topology::Nic nic;
    nic.name = "eth";
    host.nics.push_back(nic);
    topology::Device device;
    device.name = "test";
    device.kind = topology::DeviceKind::kGpu;
    device.flops_per_second = 1e9 * factor(random);
    const int count = std::min<int>(left, 1 + static_cast<int>(random() % 2));
    host.devices.assign(at(count), device);
    left -= count;
    cluster.hosts.push_back(host);
  }
  for (const auto& from : cluster.hosts)
    for (const auto& to : cluster.hosts)
      cluster.links.push_back({from.name, "eth", to.name, "eth",
                               (from.name == to.name ? 1e8 : 1e6) * factor(random), 1e-5 * factor(random),
                               true});
  return cluster;
}

Job random_job(std::mt19937_64& random, int layers, int rows) {
  Job job;
  job.model = small_model(layers);
  job.global_batch = rows;
  job.framework = random() % 2 == 0 ? Framework::kTombolo : Framework::kMegatron;
  job.tensor = job.framework == Framework::kMegatron ? 0 : 1;
  return job;
}

double seconds_by(const topology::ClusterFile& cluster, const Job& job, Strategy strategy) {
  PlanOptions options;
  options.strategy = strategy;
  try {
    const Plan plan = make_plan(cluster, job, options);
    // What is promised is what the plan gives, read back and simulated anew.
    const Plan again = Plan::parse(JsonDocument::parse(plan.to_json().dump(), "plan"));
    EXPECT_NEAR(simulate(again, cluster).step_seconds, plan.prediction.step_seconds,
                1e-9 * plan.prediction.step_seconds);
    return plan.prediction.step_seconds;
  } catch (const Error&) {
    return Scorer::kNever;
  }
}

/// Every layout, without bounds and without symmetry: an order of all ranks, cut into groups and pipelines in
/// every way, with every split of layers and rows.
class Everything {
 public:
  Everything(const topology::ClusterFile& cluster, const Job& job)
      : view_(cluster, "per-peer", {}), slots_(launcher_slots(view_, {})), job_(job) {
    options_.uneven_replicas = job.framework == Framework::kMegatron;
  }

  double best() {
    std::vector<int> order(slots_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    do {
      Layout layout;
      cut(order, 0, layout);
    } while (std::next_permutation(order.begin(), order.end()));
    return best_;
  }

 private:
  void cut(const std::vector<int>& order, std::size_t next, Layout& layout) {
    if (next == order.size()) {
      rows(layout, 0, job_.global_batch);
      return;
    }
    for (std::size_t size = 1; next + size <= order.size(); ++size) {
      const std::vector<int> group(order.begin() + static_cast<std::ptrdiff_t>(next),
                                   order.begin() + static_cast<std::ptrdiff_t>(next + size));
      if (size > 1 && job_.tensor == 1) break;
      if (!std::ranges::is_sorted(group)) continue;
      if (std::ranges::any_of(
              group, [&](int rank) { return slots_[at(rank)].host != slots_[at(group.front())].host; }))
        continue;
      if (!layout.replicas.empty()) {
        layout.replicas.back().places.push_back({group, 1});
        cut(order, next + size, layout);
        layout.replicas.back().places.pop_back();
      }
      layout.replicas.push_back({{{group, 1}}, 0, 0});
      cut(order, next + size, layout);
      layout.replicas.pop_back();
    }
  }

  void rows(Layout& layout, std::size_t replica, int left) {
    if (replica == layout.replicas.size()) {
      if (left == 0) layers(layout, 0, 0, job_.model.layers);
      return;
    }
    for (int share = 1; share <= left; ++share)
      for (int micro_batch = 1; micro_batch <= share; ++micro_batch) {
        if (share % micro_batch != 0) continue;
        layout.replicas[replica].rows = share;
        layout.replicas[replica].micro_batch = micro_batch;
        rows(layout, replica + 1, left - share);
      }
  }

  void layers(Layout& layout, std::size_t replica, std::size_t place, int left) {
    if (replica == layout.replicas.size()) {
      const SearchContext context{view_, view_, slots_, options_};
      best_ = std::min(best_, Scorer(context, job_).seconds(layout));
      return;
    }
    auto& places = layout.replicas[replica].places;
    if (place + 1 == places.size()) {
      places[place].layers = left;
      if (left > 0) layers(layout, replica + 1, 0, job_.model.layers);
      return;
    }
    for (int share = 1; share < left; ++share) {
      places[place].layers = share;
      layers(layout, replica, place + 1, left - share);
    }
  }

  ClusterView view_;
  std::vector<Slot> slots_;
  PlanOptions options_;
  const Job& job_;
  double best_ = Scorer::kNever;
};

TEST(Strategies, AutoEqualsExhaustiveSearchOfFewRanks) {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < 25; ++trial) {
    const topology::ClusterFile cluster = random_cluster(random, 1 + trial % 4);
    const Job job = random_job(random, 2 + trial % 3, 1 + static_cast<int>(random() % 4));
    const double best = Everything(cluster, job).best();
    const double found = seconds_by(cluster, job, Strategy::kAuto);
    if (best == Scorer::kNever)
      EXPECT_EQ(found, best) << "seed " << seed << ' ' << trial;
    else
      EXPECT_NEAR(found, best, 1e-8 * best) << "seed " << seed << ' ' << trial;
  }
}

TEST(Strategies, AutoIsNeverWorseThanAnother) {
  const auto seed = std::random_device{}();
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < 4; ++trial) {
    const topology::ClusterFile cluster = random_cluster(random, 7 + static_cast<int>(random() % 6));
    const Job job = random_job(random, 8, 12);
    const double best = seconds_by(cluster, job, Strategy::kAuto);
    for (const Strategy strategy :
         {Strategy::kMegatron, Strategy::kHolmes, Strategy::kPipette, Strategy::kFlashFlex})
      EXPECT_LE(best, seconds_by(cluster, job, strategy) * (1 + 1e-9))
          << strategy_name(strategy) << " seed " << seed << ' ' << trial;
  }
}

TEST(Strategies, PipetteKeepsStagesTogetherOnFastLinks) {
  // Pairs of hosts by fast links, in an order that the launcher's does not follow.
  auto cluster = make_cluster({{"a", 4}}, 1e5);
  for (auto& link : cluster.links) {
    const int from = link.from_host.back() - '0', to = link.to_host.back() - '0';
    if ((from + to) % 4 == 3) link.bytes_per_second = 1e8;  // a0 with a3, a1 with a2
  }
  Job job;
  job.model = small_model(4);
  job.global_batch = 16;
  job.pipeline = 2;
  job.data = 2;
  const double pipette = seconds_by(cluster, job, Strategy::kPipette);
  EXPECT_LT(pipette, 0.9 * seconds_by(cluster, job, Strategy::kMegatron));
}

TEST(Strategies, FlashFlexUsesDevicesOfDifferentSpeed) {
  auto cluster = make_cluster({{"fast", 1, 4, topology::NicKind::kTcp, 0, 4e9, 0},
                               {"slow", 1, 2, topology::NicKind::kTcp, 0, 1e9, 0}},
                              1e9);
  Job job;
  job.model = small_model(12);
  job.global_batch = 24;
  job.framework = Framework::kMegatron;
  job.tensor = 0;
  PlanOptions options;
  options.strategy = Strategy::kFlashFlex;
  const Plan plan = make_plan(cluster, job, options);
  EXPECT_LT(plan.prediction.step_seconds, 0.7 * seconds_by(cluster, job, Strategy::kMegatron));
  EXPECT_EQ(plan.ranks.size(), 6u) << "nobody is left out";
}

TEST(Strategies, AreNamed) {
  for (const Strategy strategy :
       {Strategy::kMegatron, Strategy::kHolmes, Strategy::kPipette, Strategy::kFlashFlex, Strategy::kAuto})
    EXPECT_EQ(strategy_from_name(strategy_name(strategy)), strategy);
  EXPECT_FALSE(strategy_from_name("best"));
}

TEST(Strategies, RejectWhatFitsNowhere) {
  auto cluster = make_cluster({{"a", 2, 1, topology::NicKind::kTcp, 0, 1e9, 1000}}, 1e9);
  Job job;
  job.model = small_model(4);
  job.global_batch = 4;
  for (const Strategy strategy : {Strategy::kPipette, Strategy::kFlashFlex, Strategy::kAuto}) {
    PlanOptions options;
    options.strategy = strategy;
    try {
      make_plan(cluster, job, options);
      ADD_FAILURE() << strategy_name(strategy);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("no plan fits in memory"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace tombolo::planner
