#include "probe/bootstrap/connectivity.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>

#include "probe/testing/group_ranks.h"

namespace tombolo::probe {
namespace {

using test::loopback_nic_of;
using topology::NicKind;

/// Every rank's results.
std::map<int, std::vector<ConnectivityResult>> check_all(std::string_view clusters,
                                                         const test::ChangeOptions& change = {}) {
  std::mutex mutex;
  std::map<int, std::vector<ConnectivityResult>> by_rank;
  test::run_group(
      clusters,
      [&](RendezvousGroup& group, const collectives::Options& options) {
        auto results = check_connectivity(group, options);
        const std::lock_guard lock(mutex);
        by_rank[options.identity.rank] = std::move(results);
      },
      change);
  return by_rank;
}

void expect_pair_error(const ConnectivityResult& result, int peer, std::string_view part) {
  EXPECT_EQ(result.peer, peer);
  EXPECT_FALSE(result.route);
  EXPECT_NE(result.error.find(part), std::string::npos) << result.error;
}

TEST(Connectivity, ConnectsEveryPairAndTellsItsRoute) {
  const auto by_rank = check_all("ABA");
  ASSERT_EQ(by_rank.size(), 3U);
  for (const auto& [rank, results] : by_rank) {
    ASSERT_EQ(results.size(), 2U);
    for (std::size_t at = 0; at < results.size(); ++at) {
      const int peer = static_cast<int>(at) + (static_cast<int>(at) >= rank ? 1 : 0);
      EXPECT_EQ(results[at].peer, peer);
      EXPECT_EQ(results[at].peer_host, "host" + std::to_string(peer));
      EXPECT_EQ(results[at].error, "");
      ASSERT_TRUE(results[at].route) << "rank " << rank << " to " << peer;
      EXPECT_EQ(results[at].route->transport, "tcp");
      EXPECT_EQ(results[at].route->local_nic, "eth0");
    }
  }
}

TEST(Connectivity, ARankThatCannotListenFailsInItsOwnPairsAlone) {
  const auto by_rank = check_all("AAA", [](collectives::Options& options) {
    // An address that no host has (RFC 5737).
    if (options.identity.rank == 1) options.router.host.nics.front().addresses = {"192.0.2.9"};
  });
  ASSERT_EQ(by_rank.size(), 3U);
  for (const int rank : {0, 2}) {
    const auto& results = by_rank.at(rank);
    const auto& of_one = results.at(rank == 0 ? 0 : 1);
    expect_pair_error(of_one, 1, "rank 1 has no NIC that it could use");
    EXPECT_EQ(of_one.peer_host, "");
    EXPECT_TRUE(results.at(rank == 0 ? 1 : 0).route) << "ranks 0 and 2 are not concerned";
  }
  for (const auto& result : by_rank.at(1)) {
    EXPECT_FALSE(result.route);
    EXPECT_NE(result.error.find("192.0.2.9"), std::string::npos) << result.error;
    EXPECT_EQ(result.peer_host, result.peer == 0 ? "host0" : "host2");
  }
}

/// A clock that goes on by a second whenever it is read.
class HastyClock final : public Clock {
 public:
  TimePoint now() const noexcept override { return TimePoint(std::chrono::seconds(++reads_)); }

 private:
  mutable std::atomic<int> reads_{0};
};

TEST(Connectivity, TheEndThatConnectsSaysWhyAndTheOtherPointsToIt) {
  HastyClock of_rank_1;  // which waits in vain
  const auto by_rank = check_all("AA", [&](collectives::Options& options) {
    if (options.identity.rank == 1) options.router.clock = &of_rank_1;
    options.router.host.nics.front().fabric = options.identity.rank == 0 ? "north" : "south";
  });
  ASSERT_EQ(by_rank.size(), 2U);
  expect_pair_error(by_rank.at(0).at(0), 1, "different fabrics");
  expect_pair_error(by_rank.at(1).at(0), 0,
                    "rank 0 on host0 did not connect to this rank within 30 s; it says why");
}

TEST(Connectivity, OfASharedKindTakesTheOneThatAllHave) {
  const auto by_rank = check_all("AA", [](collectives::Options& options) {
    options.routing = collectives::Routing::kShared;
    options.router.host.nics = {loopback_nic_of("eth0")};
    if (options.identity.rank == 0)
      options.router.host.nics.insert(options.router.host.nics.begin(),
                                      loopback_nic_of("ib0", NicKind::kInfiniBand));
  });
  ASSERT_EQ(by_rank.size(), 2U);
  for (const int rank : {0, 1}) {
    const auto& result = by_rank.at(rank).at(0);
    ASSERT_TRUE(result.route) << result.error;
    EXPECT_EQ(result.route->kind, NicKind::kTcp);
    EXPECT_EQ(result.route->local_nic, "eth0");
  }
}

TEST(Connectivity, OfASharedKindFailsEverywhereWhereThereIsNone) {
  const auto by_rank = check_all("AA", [](collectives::Options& options) {
    options.routing = collectives::Routing::kShared;
    options.router.host.nics = {
        loopback_nic_of("nic0", options.identity.rank == 0 ? NicKind::kInfiniBand : NicKind::kTcp)};
  });
  ASSERT_EQ(by_rank.size(), 2U);
  for (const int rank : {0, 1})
    expect_pair_error(by_rank.at(rank).at(0), 1 - rank, "there is no NIC kind that all ranks share");
}

}  // namespace
}  // namespace tombolo::probe
