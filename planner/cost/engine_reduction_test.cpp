#include "planner/cost/engine_reduction.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "planner/testing/testing.h"

namespace tombolo::planner {
namespace {

using collectives::JobCosts;
using collectives::Level;
using collectives::LinkCost;
using collectives::NetworkCosts;
using collectives::RankMap;
using testing::make_cluster;

constexpr double kFast = 1e9, kSlow = 1e8, kLatency = 1e-4;

/// Clusters a and b of so many hosts, with links of kFast inside and of kSlow between them.
topology::ClusterFile two_clusters(int hosts_of_a, int hosts_of_b, int devices = 1) {
  return make_cluster({{"a", hosts_of_a, devices, topology::NicKind::kInfiniBand, kFast},
                       {"b", hosts_of_b, devices, topology::NicKind::kInfiniBand, kFast}},
                      kSlow, kLatency);
}

/// What `members`' schedules send to each other, made for each of them by itself.
std::map<std::pair<int, int>, double> sent_by(const EngineCall& call, const topology::ClusterFile& cluster,
                                              const std::vector<int>& members) {
  std::vector<collectives::RankLocation> locations;
  for (const int host : members) {
    const topology::Host& one = cluster.hosts[static_cast<std::size_t>(host)];
    locations.push_back({one.name, one.cluster});
  }
  std::map<std::pair<int, int>, double> sent;
  for (int rank = 0; rank < static_cast<int>(members.size()); ++rank) {
    const auto schedule =
        call.choice.algorithm->build(RankMap::make(rank, locations), call.problem, call.choice.tuning, true);
    for (const collectives::Step& step : schedule.steps)
      if (step.kind == collectives::StepKind::kSend)
        sent[{rank, step.peer}] +=
            static_cast<double>(step.bytes) / static_cast<double>(call.problem.bytes());
  }
  return sent;
}

AllReduce traffic_of(const EngineModel& model, const EngineCall& call) {
  EngineTraffic nothing_known;
  return model.traffic(call, nothing_known);
}

double between_clusters(const AllReduce& all, const topology::ClusterFile& cluster,
                        const std::vector<int>& members, const std::string& from, const std::string& to) {
  const auto is_in = [&](int member, const std::string& name) {
    const int host = members[static_cast<std::size_t>(member)];
    return cluster.hosts[static_cast<std::size_t>(host)].cluster == name;
  };
  double sum = 0;
  for (const Transfer& one : all.transfers)
    if (is_in(one.from, from) && is_in(one.to, to)) sum += one.fraction;
  return sum;
}

struct MemberLayout {
  std::string name;
  topology::ClusterFile cluster;
  std::vector<int> members;  ///< hosts
};

std::vector<MemberLayout> member_layouts() {
  return {{"two hosts of one cluster", two_clusters(2, 1), {0, 1}},
          {"two clusters of two hosts", two_clusters(2, 2), {0, 2, 1, 3}},
          {"unlike clusters", two_clusters(3, 1), {0, 1, 2, 3}},
          {"hosts of several members", two_clusters(2, 2, 2), {0, 0, 1, 1, 2, 2, 3, 3}},
          {"hosts of unlike numbers of members", two_clusters(2, 2, 2), {0, 0, 1, 2, 3}},
          {"one host", two_clusters(1, 1, 4), {0, 0, 0, 0}}};
}

/// The engine's figures of such a network, written down.
JobCosts expected_costs(const MemberLayout& layout, const RankMap& map) {
  NetworkCosts costs;
  std::map<std::string, std::map<int, bool>> hosts;
  for (const int host : layout.members)
    hosts[layout.cluster.hosts[static_cast<std::size_t>(host)].cluster][host] = true;
  std::size_t fewest = layout.members.size(), most = 0;
  for (const auto& [name, some] : hosts) {
    fewest = std::min(fewest, some.size());
    most = std::max(most, some.size());
  }
  if (most > 1) costs.levels[1] = LinkCost::of(kLatency, kFast);
  if (hosts.size() > 1) {
    costs.levels[2] = LinkCost::of(kLatency, kSlow);
    costs.set_uplink(kSlow * static_cast<double>(fewest));
  }
  return {map, costs};
}

TEST(EngineModel, TakesTheSecondsOfTheEnginesCostModel) {
  for (const MemberLayout& layout : member_layouts()) {
    SCOPED_TRACE(layout.name);
    const ClusterView view(layout.cluster, "per-peer", {});
    const EngineModel model(view, layout.members);
    std::vector<collectives::RankLocation> locations;
    for (const int host : layout.members)
      locations.push_back({view.host(host).name, view.host(host).cluster});
    const RankMap map = RankMap::make(0, locations);
    const JobCosts costs = expected_costs(layout, map);
    for (const double bytes : {4e3, 4e5, 4e7}) {
      const EngineCall call = model.all_reduce(bytes);
      EXPECT_EQ(call.problem.bytes(), static_cast<std::size_t>(bytes));
      if (call.choice.through_host_memory()) {
        EXPECT_EQ(layout.name, "one host");
        EXPECT_LE(bytes, static_cast<double>(collectives::Tuning().host_bytes));
        EXPECT_NEAR(call.seconds, 2 * 3.0 / 4 * bytes * 1e-10, 2e-9);
        continue;
      }
      const auto cost = call.choice.algorithm->cost(costs, call.problem, call.choice.tuning);
      EXPECT_EQ(call.seconds, static_cast<double>(cost) * 1e-9) << call.choice.name();
      EXPECT_FALSE(model.why(call).empty());
    }
  }
}

TEST(EngineModel, SendsWhatTheSchedulesOfAllMembersSay) {
  for (const MemberLayout& layout : member_layouts()) {
    SCOPED_TRACE(layout.name);
    const ClusterView view(layout.cluster, "per-peer", {});
    const EngineModel model(view, layout.members);
    for (const double bytes : {4e3, 4e5, 4e7}) {
      const EngineCall call = model.all_reduce(bytes);
      if (call.choice.through_host_memory()) continue;
      auto sent = sent_by(call, layout.cluster, layout.members);
      for (const Transfer& one : traffic_of(model, call).transfers) sent[{one.from, one.to}] -= one.fraction;
      for (const auto& [ends, rest] : sent)
        EXPECT_NEAR(rest, 0, 1e-3) << bytes << " bytes, from " << ends.first << " to " << ends.second;
    }
  }
}

TEST(EngineModel, SendsTheSameWhateverWasAskedBefore) {
  EngineTraffic known;
  const auto cluster = two_clusters(2, 2, 2);
  const ClusterView view(cluster, "per-peer", {});
  for (const std::vector<int>& members :
       {std::vector<int>{0, 1, 2, 3}, {3, 0, 2, 1}, {0, 0, 2, 2}, {2, 0, 2, 0}, {0, 1}, {2, 1}}) {
    const EngineModel model(view, members);
    for (const double bytes : {4e3, 4e5, 4e7}) {
      const EngineCall call = model.all_reduce(bytes);
      const AllReduce fresh = traffic_of(model, call), again = model.traffic(call, known);
      ASSERT_EQ(again.transfers.size(), fresh.transfers.size());
      for (std::size_t i = 0; i < fresh.transfers.size(); ++i) {
        EXPECT_EQ(again.transfers[i].from, fresh.transfers[i].from);
        EXPECT_EQ(again.transfers[i].to, fresh.transfers[i].to);
        EXPECT_EQ(again.transfers[i].fraction, fresh.transfers[i].fraction);
      }
    }
  }
}

TEST(EngineModel, SendsTheVectorOnceEachWayBetweenTwoClusters) {
  for (const MemberLayout& layout : member_layouts()) {
    if (layout.cluster.hosts[static_cast<std::size_t>(layout.members.back())].cluster == "a") continue;
    SCOPED_TRACE(layout.name);
    const ClusterView view(layout.cluster, "per-peer", {});
    const EngineModel model(view, layout.members);
    const EngineCall call = model.all_reduce(4e7);
    EXPECT_EQ(call.choice.name(), "two-level");
    const AllReduce all = traffic_of(model, call);
    for (const auto& [from, to] : {std::pair("a", "b"), std::pair("b", "a")})
      EXPECT_NEAR(between_clusters(all, layout.cluster, layout.members, from, to), 1, 1e-9) << from;
    EXPECT_EQ(all.least_seconds, call.seconds);
    EXPECT_EQ(all.rounds, 1);
  }
}

TEST(EngineModel, OnOneHostExchangesAsMuchThroughMemoryAsByMessages) {
  const MemberLayout host = member_layouts().back();
  const ClusterView view(host.cluster, "per-peer", {});
  const EngineModel model(view, host.members);
  for (const double bytes : {4e5, 4e7}) {
    const EngineCall call = model.all_reduce(bytes);
    EXPECT_EQ(call.choice.through_host_memory(), bytes < 1e6);
    double sum = 0;
    for (const Transfer& one : traffic_of(model, call).transfers) sum += one.fraction;
    EXPECT_NEAR(sum, 2 * 3, 1e-3);
  }
}

TEST(EngineModel, TakesNoLessForMoreBytes) {
  for (const MemberLayout& layout : member_layouts()) {
    SCOPED_TRACE(layout.name);
    const ClusterView view(layout.cluster, "per-peer", {});
    const EngineModel model(view, layout.members);
    std::map<std::pair<std::string_view, std::size_t>, double> before;  // by choice
    for (double bytes = 64; bytes < 1e9; bytes *= 4) {
      const EngineCall call = model.all_reduce(bytes);
      double& last = before[{call.choice.name(), call.choice.tuning.segment_bytes}];
      EXPECT_GE(call.seconds, last) << bytes << " bytes by " << call.choice.name();
      last = call.seconds;
    }
    EXPECT_GT(model.all_reduce(1e9).seconds, 100 * model.all_reduce(64).seconds);
  }
}

TEST(EngineModel, OfOneMemberTakesNothing) {
  const auto cluster = two_clusters(1, 1);
  const ClusterView view(cluster, "per-peer", {});
  const EngineModel model(view, {0});
  const EngineCall call = model.all_reduce(4e6);
  EXPECT_EQ(call.seconds, 0);
  EXPECT_TRUE(traffic_of(model, call).transfers.empty());
  EXPECT_EQ(traffic_of(model, call).least_seconds, 0);
}

TEST(EngineModel, KnowsThatAnUplinkIsShared) {
  topology::ClusterFile cluster = two_clusters(2, 2);
  const auto seconds = [&] {
    const ClusterView view(cluster, "per-peer", {});
    return EngineModel(view, {0, 1, 2, 3}).all_reduce(4e7).seconds;
  };
  const double apart = seconds();
  topology::SharedLink uplink{"uplink", {}, {}, kSlow};
  for (const char* host : {"a0", "a1"}) uplink.from.push_back({host, "eth"});
  for (const char* host : {"b0", "b1"}) uplink.to.push_back({host, "eth"});
  cluster.shared_links.push_back(uplink);
  EXPECT_NEAR(seconds() / apart, 2, 0.2) << "both hosts share what each had";
}

TEST(EngineModel, FollowsTheRulesWhereTheClusterFileSaysNoLatency) {
  const auto cluster = make_cluster({{"a", 8}}, kSlow, 0), known = make_cluster({{"a", 8}}, kSlow, 1e-3);
  const std::vector<int> members{0, 1, 2, 3, 4, 5, 6, 7};
  const ClusterView without(cluster, "per-peer", {}), with(known, "per-peer", {});
  const EngineModel by_rules(without, members), by_costs(with, members);
  EXPECT_EQ(by_rules.all_reduce(32 << 10).choice.reason, collectives::Reason::kRule);
  EXPECT_EQ(by_costs.all_reduce(32 << 10).choice.reason, collectives::Reason::kModel);
  EXPECT_NE(by_costs.why(by_costs.all_reduce(32 << 10)).find("by the cost model"), std::string::npos);
}

}  // namespace
}  // namespace tombolo::planner
