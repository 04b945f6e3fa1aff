#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/temporary_folder.h"
#include "collectives/testing/test_support.h"

namespace tombolo::collectives {
namespace {

using namespace test;

void explained_sum(Communicator& all, std::size_t count) {
  std::vector<float> values(count, 1);
  all.all_reduce(values.data(), values.data(), count, DataType::kFloat32, ReduceOp::kSum);
}

TEST(Explanation, IsOfTheLastCallAndTheSameOnEveryRank) {
  expect_fine(run_ranks("AABB", [](Communicator& all) {
    EXPECT_TRUE(Json::parse(all.explain()).at("last_call").is_null()) << "nothing was called";
    explained_sum(all, 10);
    const Json few = Json::parse(all.explain()).at("last_call");
    EXPECT_EQ(few.at("algorithm"), "doubling");
    EXPECT_EQ(few.at("reason"), "rule");
    EXPECT_EQ(few.at("bytes"), 40);
    EXPECT_TRUE(few.at("segment_bytes").is_null()) << "doubling cuts nothing";
    explained_sum(all, 100'000);
    const Json many = Json::parse(all.explain());
    const Json& call = many.at("last_call");
    EXPECT_EQ(call.at("collective"), "all_reduce");
    EXPECT_EQ(call.at("algorithm"), "two-level");
    EXPECT_EQ(call.at("algorithm"), all.last_algorithm());
    EXPECT_EQ(call.at("segment_bytes"), Tuning().segment_bytes);
    EXPECT_EQ(call.at("channels"), 1);
    std::vector<std::string> ways;
    for (const Json& one : call.at("possible_ways")) ways.push_back(one.at("algorithm"));
    EXPECT_EQ(ways, (std::vector<std::string>{"doubling", "two-level", "ring"}));
    EXPECT_GT(many.at("connections").size(), 0U);
    for (const Json& one : many.at("connections")) {
      const bool inside = all.members()[one.at("peer")].cluster ==
                          all.members()[static_cast<std::size_t>(all.rank())].cluster;
      EXPECT_EQ(one.at("level"), inside ? "inside-clusters" : "between-clusters");
      EXPECT_EQ(one.at("transport"), "tcp");
    }
    const Json& network = many.at("network");
    EXPECT_EQ(network.at("known_from"), "cluster-file");
    EXPECT_EQ(network.at("clusters").size(), 2U);
    EXPECT_EQ(network.at("levels").size(), 2U);
    EXPECT_TRUE(network.at("levels").at(1).at("bytes_per_second").is_null()) << "nobody said it";
  }));
}

TEST(Explanation, SaysThatAnAlgorithmWasNamed) {
  expect_fine(run_ranks(
      "AB",
      [](Communicator& all) {
        explained_sum(all, 10);
        const Json call = Json::parse(all.explain()).at("last_call");
        EXPECT_EQ(call.at("reason"), "named");
        EXPECT_EQ(call.at("why"), "TOMBOLO_ALGORITHM names ring");
      },
      [](Options& options) { options.algorithm = "ring"; }));
}

TEST(Explanation, SaysThatARankIsAlone) {
  expect_fine(run_ranks("A", [](Communicator& alone) {
    explained_sum(alone, 10);
    const Json all = Json::parse(alone.explain());
    EXPECT_EQ(all.at("network").at("known_from"), "one-host");
    EXPECT_EQ(all.at("network").at("text"), "1 rank on host host0");
    EXPECT_EQ(all.at("connections").size(), 0U);
    EXPECT_EQ(all.at("last_call").at("algorithm"), alone.last_algorithm());
  }));
}

TEST(Explanation, TellsWhatWasMeasuredFromWhatWasKept) {
  const TemporaryFolder folder;
  for (const std::string from : {"measured", "kept-file"}) {
    expect_fine(run_ranks(
        "AAAA",
        [&](Communicator& all) {
          explained_sum(all, 100'000);
          const Json explanation = Json::parse(all.explain());
          const Json& network = explanation.at("network");
          EXPECT_EQ(network.at("known_from"), from);
          EXPECT_GT(network.at("levels").at(0).at("bytes_per_second"), 1e6);
          EXPECT_GT(network.at("levels").at(0).at("latency_seconds"), 1e-7);
          for (const Json& one : explanation.at("last_call").at("possible_ways"))
            EXPECT_GT(one.at("estimated_seconds"), 1e-6) << "by the cost model";
          const auto part = all.split(0, 0);
          EXPECT_EQ(Json::parse(part->explain()).at("network").at("known_from"), from);
        },
        [&](Options& options) {
          options.discover = true;
          options.islands_file = folder.file("islands.json");
          options.router.host.cluster.clear();
          options.router.limits = {{"eth0", 3e7}};
        }));
  }
}

}  // namespace
}  // namespace tombolo::collectives
