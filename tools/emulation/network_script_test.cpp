#include "tools/emulation/network_script.h"

#include <gtest/gtest.h>

namespace tombolo::emulation {
namespace {

std::vector<std::string> paths_for(const Spec& spec) {
  std::vector<std::string> paths;
  for (std::size_t host = 0; host < spec.hosts.size(); ++host) paths.push_back("/ns/" + std::to_string(host));
  return paths;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(NetworkScript, MakesABridgePerSegmentAndAPortPerNic) {
  const Spec spec = Spec::from_text("holmes");
  const NetworkScript script = make_network_script(spec, paths_for(spec));
  EXPECT_EQ(count(script.hub_ip, "type bridge"), 3U);
  EXPECT_EQ(count(script.hub_ip, "type veth"), 8U);
  EXPECT_EQ(count(script.hub_ip, "netns /ns/3"), 2U);
  ASSERT_EQ(script.host_ip.size(), 4U);
  EXPECT_EQ(count(script.host_ip[1], "addr add 10.77."), 2U);
  // Both directions of every shaped NIC: one bucket in the hub, one in the host.
  EXPECT_EQ(count(script.hub_tc, "rate 4000000000bit"), 4U);
  EXPECT_EQ(count(script.host_tc[0], "rate 100000000bit"), 1U);
}

TEST(NetworkScript, ShapesALinkAtBothEndsAndLeavesARelayedOneToItsRelay) {
  const Spec plain = Spec::from_text("two-clusters:hosts=2,rate=250mbit");
  const NetworkScript shaped = make_network_script(plain, paths_for(plain));
  EXPECT_EQ(count(shaped.hub_tc, "rate 250000000bit"), 2U);
  EXPECT_EQ(count(shaped.hub_ip, "link add name l0a type veth peer name l0b"), 1U);
  EXPECT_EQ(shaped.host_tc[0], "") << "the hosts' own NICs are not shaped";

  const Spec relayed = Spec::from_text("two-clusters:hosts=2,rate=250mbit,rtt=10ms");
  const NetworkScript carried = make_network_script(relayed, paths_for(relayed));
  EXPECT_EQ(carried.hub_tc, "");
  EXPECT_EQ(count(carried.hub_ip, "link add name l0a"), 0U) << "the relay makes its own devices";
  EXPECT_EQ(count(carried.hub_ip, "link set dev l0a"), 1U);
}

TEST(NetworkScript, ABurstHoldsAPacketAndAMillisecond) {
  EXPECT_EQ(burst_bytes(1e8), 64U * 1024);
  EXPECT_EQ(burst_bytes(1e9), 256U * 1024) << "packets are larger at high rates";
  EXPECT_EQ(burst_bytes(10e9), 1'250'000U);
}

}  // namespace
}  // namespace tombolo::emulation
