// The limits of what can be emulated, each at its edge.
#include <gtest/gtest.h>

#include "tools/cli/testing.h"
#include "tools/emulation/spec_parts.h"

namespace tombolo::emulation {
namespace {

NicSpec plain_nic(const std::string& name, const std::string& fabric = "", double rate = 1e9) {
  return {name, topology::NicKind::kTcp, fabric, fabric.empty() ? "ethernet" : fabric, rate, true};
}

Spec flat_spec(std::size_t hosts) {
  Spec spec;
  spec.name = "flat";
  for (std::size_t h = 0; h < hosts; ++h)
    spec.hosts.push_back({"h" + std::to_string(h), "A", 1, {plain_nic("eth0")}});
  return spec;
}

std::string validation_error(const Spec& spec) {
  const std::string message = tools::error_of([&] { validate(spec); });
  if (message != "no error") {
    EXPECT_EQ(message.find("emulation '"), 0U) << message;
  }
  return message;
}

TEST(SpecValidation, ThereAreAtMostSoManyHosts) {
  EXPECT_EQ(validation_error(flat_spec(kMaxHosts)), "no error");
  EXPECT_MENTIONS(validation_error(flat_spec(kMaxHosts + 1)), "more than 64 hosts");
  EXPECT_MENTIONS(validation_error(flat_spec(0)), "it has no hosts");
}

TEST(SpecValidation, HostsHaveNamesAndNics) {
  Spec spec = flat_spec(2);
  spec.hosts[1].name.clear();
  EXPECT_MENTIONS(validation_error(spec), "a host has no name");
  spec = flat_spec(2);
  spec.hosts[1].nics.clear();
  EXPECT_MENTIONS(validation_error(spec), "host 'h1' has no NICs");
}

TEST(SpecValidation, AHostHasAtMostEightNicsAndThreeOnAFabric) {
  Spec spec = flat_spec(1);
  for (int i = 1; i < 3; ++i) spec.hosts[0].nics.push_back(plain_nic("eth" + std::to_string(i)));
  EXPECT_EQ(validation_error(spec), "no error");
  spec.hosts[0].nics.push_back(plain_nic("eth3"));
  EXPECT_MENTIONS(validation_error(spec), "host 'h0' has more than 3 NICs on fabric ''");
  spec = flat_spec(1);
  for (int i = 1; i < 8; ++i)
    spec.hosts[0].nics.push_back(plain_nic("eth" + std::to_string(i), "f" + std::to_string(i)));
  EXPECT_EQ(validation_error(spec), "no error");
  spec.hosts[0].nics.push_back(plain_nic("eth8", "f8"));
  EXPECT_MENTIONS(validation_error(spec), "host 'h0' has more than 8 NICs");
}

TEST(SpecValidation, InterfacesHaveNamesThatTheKernelTakes) {
  for (const char* name : {"", "lo", "sixteen-letters-", "a/b", "a b", "eth0\n", "é"}) {
    Spec spec = flat_spec(1);
    spec.hosts[0].nics[0].name = name;
    EXPECT_MENTIONS(validation_error(spec), "is not an interface name");
  }
  for (const char* name : {"fifteen-letters", "a.b_c-9"}) {
    Spec spec = flat_spec(1);
    spec.hosts[0].nics[0].name = name;
    EXPECT_EQ(validation_error(spec), "no error") << name;
  }
  Spec spec = flat_spec(1);
  spec.hosts[0].nics.push_back(plain_nic("eth0"));
  EXPECT_MENTIONS(validation_error(spec), "host 'h0' has two NICs named 'eth0'");
}

TEST(SpecValidation, RatesAreAtLeast100Kbit) {
  Spec spec = flat_spec(1);
  spec.hosts[0].nics[0].bits_per_second = 1e5;
  EXPECT_EQ(validation_error(spec), "no error");
  spec.hosts[0].nics[0].bits_per_second = 99'999;
  EXPECT_MENTIONS(validation_error(spec), "host 'h0', NIC 'eth0': a rate of at least 100kbit is needed");
  spec = *built_in_spec("two-clusters");
  spec.links[0].bits_per_second = 1e4;
  EXPECT_MENTIONS(validation_error(spec), "the link A - B: a rate of at least 100kbit is needed");
}

/// As many segments in a row as there are links and one more, all of one fabric.
Spec chain_of(std::size_t links) {
  Spec spec;
  spec.name = "chain";
  for (std::size_t i = 0; i <= links; ++i) {
    spec.hosts.push_back({"h" + std::to_string(i), "A", 1, {plain_nic("eth0")}});
    spec.hosts.back().nics[0].segment = "s" + std::to_string(i);
    if (i > 0) spec.links.push_back({"s" + std::to_string(i - 1), "s" + std::to_string(i), 1e9});
  }
  return spec;
}

TEST(SpecValidation, ThereAreAtMost32Relays) {
  Spec spec = chain_of(33);
  EXPECT_EQ(validation_error(spec), "no error") << "a link without round trip needs none";
  for (LinkSpec& link : spec.links) link.round_trip = std::chrono::milliseconds(1);
  EXPECT_MENTIONS(validation_error(spec), "more than 32 links with a round trip or loss");
  spec.links.back().round_trip = Duration::zero();
  EXPECT_EQ(validation_error(spec), "no error");
  spec.links.back().cuttable = true;
  EXPECT_MENTIONS(validation_error(spec), "more than 32 links");
}

TEST(SpecValidation, LinksJoinSegmentsWithoutALoop) {
  Spec spec = chain_of(3);
  spec.links.push_back({"s3", "s0", 1e9});
  EXPECT_MENTIONS(validation_error(spec), "the link s3 - s0 closes a loop");
  spec = chain_of(3);
  spec.links[1].second = "nowhere";
  EXPECT_MENTIONS(validation_error(spec),
                  "a link names segment 'nowhere', which no NIC and no other link is on");
  spec = chain_of(3);
  spec.links[1].second = "core";
  spec.links.push_back({"core", "s2", 1e9});
  EXPECT_EQ(validation_error(spec), "no error") << "a switch between two others";
  spec = chain_of(3);
  spec.links[0].bits_per_second_back = 1e4;
  EXPECT_MENTIONS(validation_error(spec), "a rate of at least 100kbit is needed");
  spec = chain_of(3);
  spec.links.erase(spec.links.begin() + 1);
  EXPECT_MENTIONS(validation_error(spec), "fabric '' lies on segments that no link joins");
}

TEST(SpecValidation, ASegmentCarriesOneFabric) {
  Spec spec = flat_spec(2);
  spec.hosts[0].nics.push_back(plain_nic("eth1", "storage"));
  spec.hosts[0].nics.back().segment = "ethernet";
  EXPECT_MENTIONS(validation_error(spec), "segment 'ethernet' carries two fabrics, '' and 'storage'");
  spec.hosts[0].nics.back().behind = "eth0";
  EXPECT_EQ(validation_error(spec), "no error") << "behind one port they share the segment";
}

TEST(SpecValidation, RanksFindEachOtherOnAFabricOfAllHosts) {
  Spec spec = flat_spec(2);
  spec.hosts[1].nics[0] = plain_nic("eth0", "other");
  EXPECT_MENTIONS(validation_error(spec), "no fabric has a NIC on every host");
}

}  // namespace
}  // namespace tombolo::emulation
