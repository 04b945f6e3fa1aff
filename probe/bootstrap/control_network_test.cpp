#include "probe/bootstrap/control_network.h"

#include <gtest/gtest.h>

#include "probe/testing/group_ranks.h"

namespace tombolo::probe {
namespace {

using test::loopback_nic_of;
using test::run_group;
using topology::NicKind;

std::string nics_of(const collectives::Options& options) {
  std::string names;
  for (const auto& nic : options.router.host.nics) names += nic.name + " ";
  return names;
}

/// A job that insists on InfiniBand.
void require_infiniband(collectives::Options& options) {
  options.routing = collectives::Routing::kShared;
  options.router.policy.require_rdma = true;
  options.router.host.nics = {loopback_nic_of("ib0", NicKind::kInfiniBand), loopback_nic_of("eth0")};
}

TEST(ControlNetwork, IsTheEthernetOfAllWhateverTheJobWants) {
  run_group(
      "AA",
      [](RendezvousGroup& group, const collectives::Options& options) {
        const auto control = control_network_options(group, options);
        EXPECT_EQ(nics_of(control), "eth0 ");
        EXPECT_EQ(control.routing, collectives::Routing::kPerPeer);
        EXPECT_FALSE(control.router.policy.require_rdma);
        EXPECT_TRUE(control.store_elsewhere);
        EXPECT_EQ(control.identity.rank, options.identity.rank);
      },
      require_infiniband);
}

TEST(ControlNetwork, IsTheJobsOwnWhereOneRankHasNoSuchNic) {
  run_group(
      "AAA",
      [](RendezvousGroup& group, const collectives::Options& options) {
        const auto control = control_network_options(group, options);
        EXPECT_EQ(nics_of(control), nics_of(options)) << "rank " << options.identity.rank;
        EXPECT_EQ(control.routing, collectives::Routing::kShared);
        EXPECT_TRUE(control.router.policy.require_rdma);
      },
      [](collectives::Options& options) {
        require_infiniband(options);
        if (options.identity.rank == 2) options.router.host.nics.pop_back();
      });
}

TEST(ControlNetwork, TakesNoNicThatCannotServe) {
  run_group(
      "A",
      [](RendezvousGroup& group, const collectives::Options& options) {
        EXPECT_EQ(nics_of(control_network_options(group, options)), "good ");
      },
      [](collectives::Options& options) {
        auto unusable = loopback_nic_of("unusable"), without_address = loopback_nic_of("without"),
             elsewhere = loopback_nic_of("elsewhere");
        unusable.usable = false;
        without_address.addresses.clear();
        elsewhere.fabric = "storage";
        options.router.host.nics = {unusable, without_address, loopback_nic_of("good"), elsewhere,
                                    loopback_nic_of("roce", NicKind::kRoce)};
      });
}

}  // namespace
}  // namespace tombolo::probe
