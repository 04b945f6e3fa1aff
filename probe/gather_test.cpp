#include "probe/gather.h"

#include <gtest/gtest.h>

#include "collectives/testing/test_support.h"

namespace tombolo::probe {
namespace {

/// Runs on ranks that are on `hosts`, each in a thread of its own.
void on_hosts(const std::vector<std::string>& hosts,
              const std::function<void(collectives::Communicator&, const topology::Host&)>& body) {
  const auto host_of = [&](int rank) {
    topology::Host host;
    host.name = hosts[static_cast<std::size_t>(rank)];
    host.nics.emplace_back().name = "eth" + std::to_string(rank);
    return host;
  };
  const auto outcomes = collectives::test::run_ranks(
      std::string(hosts.size(), 'A'),
      [&](collectives::Communicator& communicator) { body(communicator, host_of(communicator.rank())); });
  collectives::test::expect_fine(outcomes);
}

TEST(GatherHosts, ListsEachHostOnceInTheOrderOfTheirFirstRanks) {
  on_hosts({"b", "a", "b", "a", "c"},
           [](collectives::Communicator& communicator, const topology::Host& mine) {
             const auto hosts = gather_hosts(communicator, mine);
             ASSERT_EQ(hosts.size(), 3U);
             EXPECT_EQ(hosts[0].host.name, "b");
             EXPECT_EQ(hosts[0].leader, 0);
             EXPECT_EQ(hosts[0].ranks, (std::vector<int>{0, 2}));
             EXPECT_EQ(hosts[0].host.nics.at(0).name, "eth0") << "as its leader describes it";
             EXPECT_EQ(hosts[1].host.name, "a");
             EXPECT_EQ(hosts[1].leader, 1);
             EXPECT_EQ(hosts[1].ranks, (std::vector<int>{1, 3}));
             EXPECT_EQ(hosts[2].ranks, std::vector<int>{4});
           });
}

TEST(GatherHosts, KeepsAClusterAndItsAbsence) {
  on_hosts({"a", "b"}, [](collectives::Communicator& communicator, topology::Host mine) {
    if (communicator.rank() == 1) mine.cluster = "B";
    const auto hosts = gather_hosts(communicator, mine);
    ASSERT_EQ(hosts.size(), 2U);
    EXPECT_EQ(hosts[0].host.cluster, "");
    EXPECT_EQ(hosts[1].host.cluster, "B");
  });
}

}  // namespace
}  // namespace tombolo::probe
