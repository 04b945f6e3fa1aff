#include "collectives/rendezvous/rendezvous_address.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tombolo::collectives {
namespace {

using topology::NicKind;
using Addresses = std::vector<std::string>;

topology::Nic nic(NicKind kind, const std::string& fabric, Addresses addresses, bool usable = true) {
  topology::Nic one;
  one.kind = kind;
  one.fabric = fabric;
  one.addresses = std::move(addresses);
  one.usable = usable;
  return one;
}

std::string address_of(std::vector<topology::Nic> nics) {
  topology::Host host;
  host.nics = std::move(nics);
  return rendezvous_address(host);
}

TEST(RendezvousAddress, IsOnTheFabricThatAllShareNotOnTheFastest) {
  EXPECT_EQ(address_of({nic(NicKind::kInfiniBand, "A-ib", {"10.8.0.1"}),
                        nic(NicKind::kRoce, "", {"10.9.0.1"}), nic(NicKind::kTcp, "storage", {"10.7.0.1"}),
                        nic(NicKind::kTcp, "", {"10.0.0.1"}), nic(NicKind::kTcp, "", {"10.0.1.1"})}),
            "10.0.0.1");
  // Without Ethernet, RDMA NICs that all share; then any.
  EXPECT_EQ(
      address_of({nic(NicKind::kInfiniBand, "A-ib", {"10.8.0.1"}), nic(NicKind::kRoce, "", {"10.9.0.1"})}),
      "10.9.0.1");
  EXPECT_EQ(address_of({nic(NicKind::kInfiniBand, "A-ib", {"10.8.0.1"})}), "10.8.0.1");
}

TEST(RendezvousAddress, SkipsWhatNobodyElseCanConnectTo) {
  EXPECT_EQ(address_of({nic(NicKind::kTcp, "", {"fe80::1"}), nic(NicKind::kTcp, "", {"169.254.3.4"}),
                        nic(NicKind::kTcp, "", {"10.0.0.2"}, false), nic(NicKind::kTcp, "", {}),
                        nic(NicKind::kTcp, "", {"127.0.0.9"}),
                        nic(NicKind::kTcp, "", {"fe80::2%eth0", "2001:db8::7"})}),
            "2001:db8::7");
  EXPECT_EQ(address_of({nic(NicKind::kTcp, "", {"127.0.0.9"})}), "127.0.0.9") << "an emulated host";
  EXPECT_EQ(address_of({nic(NicKind::kTcp, "", {"fe80::1"})}), "127.0.0.1");
  EXPECT_EQ(address_of({}), "127.0.0.1");
}

TEST(Listening, KeepsToLoopbackWhereOnlyThatIsMeant) {
  const auto digits = plan_listening("127.0.0.1", {"127.0.0.1"}, {"10.0.0.1"});
  EXPECT_FALSE(digits.everywhere);
  EXPECT_EQ(digits.addresses, Addresses{"127.0.0.1"});
  EXPECT_EQ(plan_listening("::1", {"::1"}, {}).addresses, Addresses{"::1"});
  const auto name = plan_listening("localhost", {"::1", "127.0.0.1"}, {});
  EXPECT_FALSE(name.everywhere);
  EXPECT_EQ(name.addresses, (Addresses{"127.0.0.1", "::1"})) << "each may be missing on this host";
}

TEST(Listening, IsEverywhereForAHostAndForWhatForwardsToIt) {
  // As Debian writes /etc/hosts, and with several addresses of which some are not bound here.
  for (const Addresses& resolved :
       {Addresses{"127.0.1.1"}, Addresses{"192.0.2.7", "10.0.0.1"}, Addresses{"fe80::1", "10.0.0.1"}}) {
    const auto plan = plan_listening("node3", resolved, {"127.0.0.1", "10.0.0.1"});
    EXPECT_TRUE(plan.everywhere);
    EXPECT_TRUE(plan.of_this_host) << resolved.front();
    EXPECT_EQ(plan.addresses, (Addresses{"::", "0.0.0.0"}));
  }
  EXPECT_TRUE(plan_listening("10.0.0.1", {"10.0.0.1"}, {"10.0.0.1"}).of_this_host);
  const auto service = plan_listening("trainer-0.jobs", {"192.0.2.7"}, {"10.0.0.1"});
  EXPECT_TRUE(service.everywhere);
  EXPECT_FALSE(service.of_this_host);
}

TEST(Listening, TellsLoopbackFromNames) {
  for (const char* yes : {"127.0.0.1", "127.8.7.6", "::1", "localhost"}) EXPECT_TRUE(is_loopback(yes)) << yes;
  for (const char* no : {"10.0.0.1", "node3", "localhost.example", "0.0.0.0", ""})
    EXPECT_FALSE(is_loopback(no)) << no;
}

TEST(Listening, FindsTheAddressesOfNamesAndOfThisHost) {
  EXPECT_EQ(resolve_addresses("127.0.0.1"), Addresses{"127.0.0.1"});
  EXPECT_THROW(resolve_addresses("no such host.invalid"), Error);
  const auto own = own_addresses();
  EXPECT_NE(std::find(own.begin(), own.end(), "127.0.0.1"), own.end());
}

}  // namespace
}  // namespace tombolo::collectives
