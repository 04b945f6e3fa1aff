#include "probe/rounds/step_runner.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "base/error.h"
#include "collectives/testing/test_support.h"

namespace tombolo::probe {
namespace {

/// Runs on a host per letter of `hosts`, each a thread; ranks of one letter are on one host. A host has a NIC
/// that works, and one that has no address.
void run_on(const std::string& hosts,
            const std::function<void(collectives::Communicator&, const collectives::Options&)>& body) {
  std::mutex mutex;
  std::map<int, collectives::Options> by_rank;
  const auto change = [&](collectives::Options& options) {
    const char host = hosts[static_cast<std::size_t>(options.identity.rank)];
    options.router.host.name = std::string(1, host);
    options.router.policy.transports = {"tcp"};  // threads of one process would else share memory
    topology::Nic bare;
    bare.name = "bare";
    options.router.host.nics.push_back(bare);
    const std::lock_guard lock(mutex);
    by_rank[options.identity.rank] = options;
  };
  collectives::test::expect_fine(collectives::test::run_ranks(
      std::string(hosts.size(), 'A'),
      [&](collectives::Communicator& communicator) {
        collectives::Options options;
        {
          const std::lock_guard lock(mutex);
          options = by_rank.at(communicator.rank());
        }
        body(communicator, options);
      },
      change));
}

constexpr NicPair kGood{0, 1, 0, 0}, kBare{0, 1, 1, 1};

TEST(StepRunner, GivesEveryRankTheSameRatesAndErrors) {
  std::mutex mutex;
  std::vector<StepResults> all;
  // The third rank leads no host; the last host takes part in one step only.
  run_on("abac", [&](collectives::Communicator& communicator, const collectives::Options& options) {
    LinkProbeOptions probe;
    probe.seconds_per_pair = 0.02;
    StepRunner runner(communicator, options, probe);
    ASSERT_EQ(runner.hosts().size(), 3U);
    EXPECT_EQ(runner.hosts()[2].name, "c");
    StepResults results = runner.run({{kGood}, {kBare}, {}, {NicPair{2, 0, 0, 0}}}, Load::kOwn);
    const std::lock_guard lock(mutex);
    all.push_back(std::move(results));
  });
  ASSERT_EQ(all.size(), 4U);
  for (const StepResults& results : all) {
    EXPECT_EQ(results.values, all.front().values);
    EXPECT_EQ(results.errors, all.front().errors);
  }
  const StepResults& results = all.front();
  ASSERT_EQ(results.errors.size(), 3U);
  for (const std::size_t measured : {0U, 2U}) {
    EXPECT_EQ(results.errors[measured], "");
    EXPECT_GT(results.forward(measured), 0);
    EXPECT_GT(results.backward(measured), 0);
    EXPECT_GT(results.latency(measured), 0);
  }
  EXPECT_TRUE(results.errors[1].starts_with("rank 0: probe: a NIC of 'b' does not listen"))
      << results.errors[1];
  EXPECT_EQ(results.forward(1), 0);
  EXPECT_EQ(results.backward(1), 0);
}

TEST(StepRunner, MeasuresPairsOfHostsUnderEachOthersLoad) {
  run_on("abcd", [&](collectives::Communicator& communicator, const collectives::Options& options) {
    LinkProbeOptions probe;
    probe.seconds_per_pair = 0.02;
    StepRunner runner(communicator, options, probe);
    // A pair that fails in the same step ends no other's round.
    const StepResults results =
        runner.run({{kGood, NicPair{2, 3, 0, 0}}, {kBare, NicPair{2, 3, 0, 0}}}, Load::kShared);
    for (const std::size_t measured : {0U, 1U, 3U}) {
      EXPECT_EQ(results.errors.at(measured), "");
      EXPECT_GT(results.forward(measured), 0);
      EXPECT_GT(results.backward(measured), 0);
    }
    EXPECT_NE(results.errors.at(2), "");
  });
}

TEST(StepRunner, TellsRankZeroHowFarItIs) {
  std::vector<std::pair<int, int>> told;
  run_on("ab", [&](collectives::Communicator& communicator, const collectives::Options& options) {
    LinkProbeOptions probe;
    probe.bytes = 1 << 16;
    probe.progress = [&](int done, int total) {
      EXPECT_EQ(communicator.rank(), 0);
      told.emplace_back(done, total);
    };
    StepRunner runner(communicator, options, probe);
    runner.expect(3);
    runner.run({{kGood}, {kGood}}, Load::kOwn);
    runner.expect(2);
    runner.run({{kGood}}, Load::kOwn);
    runner.finish();
  });
  EXPECT_EQ(told, (std::vector<std::pair<int, int>>{{1, 3}, {2, 3}, {3, 5}, {3, 3}}));
}

}  // namespace
}  // namespace tombolo::probe
