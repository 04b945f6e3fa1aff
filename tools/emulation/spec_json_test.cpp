// Files of emulations at the edges; spec_test.cpp has ordinary ones.
#include <gtest/gtest.h>

#include "tools/cli/testing.h"
#include "tools/emulation/spec.h"

namespace tombolo::emulation {
namespace {

/// A spec of one host with these NICs and links.
Spec lab_of(const std::string& nics, const std::string& links = "") {
  return Spec::parse(
      JsonDocument::parse(R"({"name": "lab", "hosts": [{"name": "x", "cluster": "X", "nics": [)" + nics +
                              "]}]" + (links.empty() ? "" : ", \"links\": [" + links + "]") + "}",
                          "lab.json"));
}

std::string lab_error(const std::string& nics, const std::string& links = "") {
  return tools::error_of([&] { lab_of(nics, links); });
}

constexpr const char* kPort = R"({"name": "eth0", "rate": "1gbit"})";

TEST(SpecJson, ANicWithoutAFabricIsOnEthernet) {
  const Spec spec = lab_of(std::string(kPort) + R"(, {"name": "ib0", "rate": "1gbit", "fabric": "ib-X",
                                                        "kind": "infiniband"})");
  EXPECT_EQ(spec.hosts[0].nics[0].segment, "ethernet");
  EXPECT_EQ(spec.hosts[0].nics[0].kind, topology::NicKind::kTcp);
  EXPECT_TRUE(spec.hosts[0].nics[0].shaped);
  EXPECT_EQ(spec.hosts[0].nics[1].segment, "ib-X");
  EXPECT_EQ(spec.hosts[0].devices, 1);
}

TEST(SpecJson, APortIsNotBehindAnother) {
  const std::string nics = std::string(kPort) + R"(, {"name": "vip", "fabric": "storage", "behind": "eth0"})";
  EXPECT_NO_THROW(lab_of(nics));
  EXPECT_MENTIONS(lab_error(nics + R"(, {"name": "vip2", "fabric": "backup", "behind": "vip"})"),
                  "hosts[0].nics[2].behind: 'vip' is no earlier NIC of this host with a port of its own");
  EXPECT_MENTIONS(lab_error(R"({"name": "vip", "fabric": "s", "behind": "vip"})"), "no earlier NIC");
  for (const char* of_the_port : {R"("segment": "s")", R"("shaped": false)"})
    EXPECT_MENTIONS(
        lab_error(std::string(kPort) + R"(, {"name": "vip", "fabric": "storage", "behind": "eth0", )" +
                  of_the_port + "}"),
        "it is that of the NIC that this one is \"behind\"");
}

TEST(SpecJson, NamesTheFieldThatIsMissingUnknownOrOfAnotherType) {
  EXPECT_MENTIONS(lab_error(R"({"name": "eth0"})"), "hosts[0].nics[0]");
  EXPECT_MENTIONS(lab_error(R"({"name": "eth0", "rate": 1000000000})"), "hosts[0].nics[0].rate");
  EXPECT_MENTIONS(lab_error(R"({"name": "eth0", "rate": "1gbit", "shaped": "no"})"),
                  "hosts[0].nics[0].shaped");
  EXPECT_MENTIONS(lab_error(R"({"name": "eth0", "rate": "1gbit", "mtu": 1500})"), "mtu");
  EXPECT_MENTIONS(tools::error_of([] { Spec::parse(JsonDocument::parse("{}", "lab.json")); }), "name");
  EXPECT_MENTIONS(tools::error_of([] { Spec::parse(JsonDocument::parse("[1]", "lab.json")); }), "lab.json:1");
}

TEST(SpecJson, ALinkMayHaveAnotherRateBack) {
  const std::string nics =
      R"({"name": "eth0", "rate": "1gbit", "segment": "s"}, {"name": "eth1", "rate": "1gbit", "segment": "t"})";
  const Spec spec = lab_of(nics, R"({"between": ["s", "t"], "rate": "1gbit", "rate_back": "100mbit"})");
  EXPECT_EQ(spec.links[0].back(), 1e8);
  EXPECT_EQ(lab_of(nics, R"({"between": ["s", "t"], "rate": "1gbit"})").links[0].back(), 1e9);
  EXPECT_MENTIONS(lab_error(nics, R"({"between": ["s", "t"], "rate": "1gbit", "rate_back": 5})"),
                  "rate_back");
}

TEST(SpecJson, ALinksQueueHoldsTwoPacketsAtLeast) {
  const std::string nics =
      R"({"name": "eth0", "rate": "1gbit", "segment": "s"}, {"name": "eth1", "rate": "1gbit", "segment": "t"})";
  const auto link = [](const std::string& queue) {
    return R"({"between": ["s", "t"], "rate": "1mbit", "rtt": "1ms", "queue": ")" + queue + "\"}";
  };
  EXPECT_EQ(lab_of(nics, link("132K")).links[0].queue_bytes, 132U * 1024);
  EXPECT_EQ(lab_of(nics, link("1G")).links[0].queue_bytes, 1U << 30);
  for (const char* queue : {"128K", "0", "2G"})
    EXPECT_MENTIONS(lab_error(nics, link(queue)), "links[0].queue: a queue from 132K");
  EXPECT_MENTIONS(lab_error(nics, link("big")), "links[0].queue");
  EXPECT_MENTIONS(lab_error(nics, R"({"between": ["s", "t", "u"], "rate": "1mbit"})"),
                  "links[0].between: expected the names of two segments");
}

}  // namespace
}  // namespace tombolo::emulation
