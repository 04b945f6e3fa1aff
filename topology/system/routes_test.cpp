#include "topology/system/routes.h"

#include <gtest/gtest.h>

#include "topology/testing/recorded_tree.h"

namespace tombolo::topology {
namespace {

using Texts = std::vector<std::string>;

constexpr const char* kRouteHeader =
    "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n";

TEST(Routes, TellNetworksFromWhatLiesBehindARouter) {
  RecordedTree tree;
  tree.file("/proc/net/route", std::string(kRouteHeader) +
                                   "eth0\t00000000\t0100020A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"  // default
                                   "eth0\t0000020A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
                                   "eth0\t0000030A\t0100020A\t0003\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
                                   "ib0\t0000640A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
                                   "eth0\t0100040A\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0");  // a host
  const auto facts = read_ip_facts(SysTree(tree.root()), nullptr);
  EXPECT_EQ(facts.at("eth0").networks, Texts{"10.2.0.0/24"});
  EXPECT_EQ(facts.at("eth0").routes, (Texts{"0.0.0.0/0", "10.3.0.0/24"}));
  EXPECT_EQ(facts.at("ib0").networks, Texts{"10.100.0.0/16"});
  EXPECT_EQ(facts.at("ib0").routes, Texts{});
}

TEST(Routes, LeaveOutWhatIsDownRejectedLinkLocalOrMulticast) {
  RecordedTree tree;
  tree.file("/proc/net/route", std::string(kRouteHeader) +
                                   "eth0\t0000020A\t00000000\t0000\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
                                   "eth0\t0000020A\t00000000\t0201\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
                                   "eth0\t0000FEA9\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
                                   "eth0\t000000E0\t00000000\t0001\t0\t0\t0\t000000F0\t0\t0\t0\n"
                                   "eth0\tnonsense\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
                                   "eth0\t0000020A");
  tree.file("/proc/net/ipv6_route",
            // A link-local network, one of "lo", and the host's own address.
            "fe800000000000000000000000000000 40 " + std::string(32, '0') + " 00 " + std::string(32, '0') +
                " 00000100 00000001 00000000 00000001 eth0\n" + "fd000002000000000000000000000000 40 " +
                std::string(32, '0') + " 00 " + std::string(32, '0') +
                " 00000100 00000001 00000000 00000001 lo\n" + "fd000002000000000000000000000001 80 " +
                std::string(32, '0') + " 00 " + std::string(32, '0') +
                " 00000100 00000001 00000000 80000001 eth0");
  for (const auto& [name, facts] : read_ip_facts(SysTree(tree.root()), nullptr)) {
    EXPECT_EQ(facts.networks, Texts{}) << name;
    EXPECT_EQ(facts.routes, Texts{}) << name;
  }
}

TEST(Routes, ReadIpv6NetworksRoutesAndAddresses) {
  RecordedTree tree;
  const std::string none(32, '0');
  tree.file("/proc/net/ipv6_route", "fd000002000000000000000000000000 40 " + none + " 00 " + none +
                                        " 00000100 00000001 00000000 00000001 eth0\n" + none + " 00 " + none +
                                        " 00 fe800000000000000000000000000001 00000400 00000001 00000000 "
                                        "00000003 eth0");
  tree.file("/proc/net/if_inet6",
            "fe800000000000000000000000000010 02 40 20 80     eth0\n"
            "fd000002000000000000000000000010 02 40 00 80     eth0\n"
            "00000000000000000000000000000001 01 80 10 80       lo");
  bool known = false;
  const auto facts = read_ip_facts(SysTree(tree.root()), &known);
  EXPECT_TRUE(known);
  EXPECT_EQ(facts.at("eth0").networks, Texts{"fd00:2::/64"});
  EXPECT_EQ(facts.at("eth0").routes, Texts{"::/0"});
  EXPECT_EQ(facts.at("eth0").addresses, (Texts{"fd00:2::10", "fe80::10%eth0"})) << "link-local ones last";
  EXPECT_EQ(facts.at("lo").addresses, Texts{"::1"});
}

TEST(Routes, GiveAnAddressToTheInterfaceWithTheLongestPrefixAroundIt) {
  RecordedTree tree;
  tree.file("/proc/net/route", std::string(kRouteHeader) +
                                   "eth0\t00000000\t0100020A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
                                   "wide\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n"
                                   "near\t0000020A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0");
  tree.file("/proc/net/fib_trie",
            "Local:\n"
            "  +-- 0.0.0.0/0 3 0 5\n"
            "     |-- 10.2.0.10\n"
            "        /32 host LOCAL\n"
            "     |-- 10.2.0.255\n"
            "        /32 link BROADCAST\n"
            "     |-- 10.7.0.1\n"
            "        /32 host LOCAL\n"
            "     |-- 172.16.0.9\n"
            "        /32 host LOCAL\n"
            "     |-- 127.0.0.1\n"
            "        /32 host LOCAL");
  const auto facts = read_ip_facts(SysTree(tree.root()), nullptr);
  EXPECT_EQ(facts.at("near").addresses, Texts{"10.2.0.10"});
  EXPECT_EQ(facts.at("wide").addresses, Texts{"10.7.0.1"});
  EXPECT_EQ(facts.at("eth0").addresses, Texts{"172.16.0.9"}) << "in no network: by the default route";
  EXPECT_EQ(facts.at("lo").addresses, Texts{"127.0.0.1"});
}

TEST(Routes, OfATreeWithoutProcAreUnknown) {
  RecordedTree tree;
  bool known = true;
  EXPECT_TRUE(read_ip_facts(SysTree(tree.root()), &known).empty());
  EXPECT_FALSE(known);
}

}  // namespace
}  // namespace tombolo::topology
