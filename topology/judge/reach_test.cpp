#include "topology/judge/reach.h"

#include "topology/system/routes.h"
#include "topology/testing/recorded_machine.h"

namespace tombolo::topology {
namespace {

Nic roce_nic(const std::string& name, const std::string& address, const std::string& network,
             const std::string& route = "") {
  Nic nic;
  nic.name = name;
  nic.kind = NicKind::kRoce;
  nic.roce_v1 = nic.roce_v2 = true;
  nic.addresses = {address};
  nic.networks = {network};
  if (!route.empty()) nic.routes = {route};
  return nic;
}

void expect_reach(const Nic& a, const Nic& b, Chance chance, std::string_view part) {
  for (const Reach& reach : {judge_reach(a, b), judge_reach(b, a)}) {
    EXPECT_EQ(chance_name(reach.chance), chance_name(chance)) << reach.why;
    EXPECT_NE(reach.why.find(part), std::string::npos) << reach.why;
  }
}

TEST(Reaching, PrefixesAreComparedBitByBit) {
  EXPECT_TRUE(is_within("10.2.0.10", "10.2.0.0/24"));
  EXPECT_FALSE(is_within("10.2.1.10", "10.2.0.0/24"));
  EXPECT_TRUE(is_within("10.2.1.10", "10.2.0.0/23"));
  EXPECT_TRUE(is_within("192.0.2.1", "0.0.0.0/0"));
  EXPECT_TRUE(is_within("fd00:2::10", "fd00:2::/64"));
  EXPECT_FALSE(is_within("fd00:2::10", "0.0.0.0/0")) << "another family";
  for (const char* odd :
       {"", "/", "10.2.0.0", "10.2.0.0/33", "10.2.0.0/-1", "10.2.0.0/x", "x/8", "10.2.0.0/8x"})
    EXPECT_FALSE(is_within("10.2.0.10", odd)) << odd;
  EXPECT_FALSE(is_within(std::string(300, '1'), "0.0.0.0/0"));
}

TEST(Reaching, RoceOfOneNetworkThenByARouterThenNotAtAll) {
  const Nic a = roce_nic("a", "10.2.0.10", "10.2.0.0/24");
  expect_reach(a, roce_nic("b", "10.2.0.11", "10.2.0.0/24"), Chance::kYes, "10.2.0.0/24");
  expect_reach(a, roce_nic("b", "10.3.0.11", "10.3.0.0/24"), Chance::kNo, "has no route to");
  const Nic routed = roce_nic("a", "10.2.0.10", "10.2.0.0/24", "10.0.0.0/8");
  expect_reach(routed, roce_nic("b", "10.3.0.11", "10.3.0.0/24", "0.0.0.0/0"), Chance::kLikely,
               "through a router");
  expect_reach(routed, roce_nic("b", "10.3.0.11", "10.3.0.0/24"), Chance::kNo,
               "b has no route to 10.2.0.10 of a");
}

TEST(Reaching, RoceVersionOnePassesNoRouter) {
  Nic a = roce_nic("a", "10.2.0.10", "10.2.0.0/24", "0.0.0.0/0");
  Nic b = roce_nic("b", "10.3.0.11", "10.3.0.0/24", "0.0.0.0/0");
  a.roce_v2 = false;
  expect_reach(a, b, Chance::kNo, "RoCE v1, which passes no router");
  b.roce_v1 = false;
  expect_reach(a, b, Chance::kNo, "only RoCE v1, the other only RoCE v2");
}

TEST(Reaching, InfiniBandByTheSubnetsPrefix) {
  auto port = [](const std::string& name, const std::string& prefix) {
    Nic nic;
    nic.name = name;
    nic.kind = NicKind::kInfiniBand;
    if (!prefix.empty()) nic.gids = {{0, prefix + ":b859:9f03:00c3:ab60", "IB/RoCE v1"}};
    return nic;
  };
  const std::string eight = "fe80:0000:0000:0008", nine = "fe80:0000:0000:0009", usual(kDefaultSubnetPrefix);
  expect_reach(port("a", eight), port("b", eight), Chance::kYes, eight);
  expect_reach(port("a", eight), port("b", nine), Chance::kNo, "InfiniBand router");
  expect_reach(port("a", usual), port("b", usual), Chance::kLikely, "the default");
  expect_reach(port("a", usual), port("b", ""), Chance::kUnknown, "b has no GID");
}

TEST(Reaching, DifferentKindsMeetByIp) {
  Nic a = roce_nic("a", "10.2.0.10", "10.2.0.0/24"), b = roce_nic("b", "10.2.0.11", "10.2.0.0/24");
  b.kind = NicKind::kTcp;
  expect_reach(a, b, Chance::kYes, "10.2.0.0/24");
  EXPECT_EQ(judge_reach(a, b, true).chance, Chance::kNo);
  b.addresses.clear();
  expect_reach(a, b, Chance::kUnknown, "b has no IP address");
  b.addresses = {"fe80::1%b"};
  expect_reach(a, b, Chance::kNo, "b has no IP address");
  b.addresses = {"fd00::1"};
  expect_reach(a, b, Chance::kNo, "only IPv4");
}

TEST(Reaching, RecordedMachinesAgreeWithTheirNetworks) {
  RecordedMachine roce("roce-v2"), vlan("roce-vlan"), ib("infiniband-hdr"), gpus("gpu-server");
  expect_reach(roce.nic("ens3f0np0"), vlan.nic("ens7np0.100"), Chance::kNo, "has no route to");
  expect_reach(roce.nic("eno1"), vlan.nic("eno1"), Chance::kYes, "192.168.7.0/24");
  expect_reach(ib.nic("ib0"), gpus.nic("ib0"), Chance::kNo, "fe80:0000:0000:0007");
}

}  // namespace
}  // namespace tombolo::topology
