#include "tools/emulation/spec.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "tools/emulation/network_script.h"

namespace tombolo::emulation {
namespace {

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage) << error.what();
    return error.what();
  }
  return "no error";
}

std::string parse_message(const std::string& json) {
  return message_of([&] { Spec::parse(JsonDocument::parse(json, "spec.json")); });
}

std::string text_message(const std::string& text) {
  return message_of([&] { Spec::from_text(text); });
}

void expect_in(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << "\"" << part << "\" is not in: " << message;
}

TEST(Spec, KnowsTheHolmesSetting) {
  Spec spec = Spec::from_text("holmes");
  ASSERT_EQ(spec.hosts.size(), 4U);
  EXPECT_EQ(spec.hosts[0].name, "a0");
  EXPECT_EQ(spec.hosts[3].name, "b1");
  EXPECT_EQ(spec.hosts[3].cluster, "B");
  EXPECT_EQ(spec.hosts[0].nics[0].kind, topology::NicKind::kInfiniBand);
  EXPECT_EQ(spec.hosts[2].nics[0].kind, topology::NicKind::kRoce);
  EXPECT_NE(spec.hosts[0].nics[0].segment, spec.hosts[2].nics[0].segment);
  EXPECT_EQ(spec.hosts[0].nics[1].segment, spec.hosts[2].nics[1].segment);
  EXPECT_EQ(spec.hosts[0].nics[1].bits_per_second, 1e8);
  EXPECT_EQ(spec.common_fabric({"a0", "b1"}), "");
  EXPECT_EQ(spec.common_fabric({"a0", "a1"}), "A-ib");
  EXPECT_EQ(spec.devices(), 4);
}

TEST(Spec, TakesParametersOfTheBuiltInOnes) {
  Spec spec = Spec::from_text("two-clusters:rate=250mbit,hosts=6");
  EXPECT_EQ(spec.hosts.size(), 6U);
  ASSERT_EQ(spec.links.size(), 1U);
  EXPECT_EQ(spec.links[0].bits_per_second, 2.5e8);
  EXPECT_EQ(Spec::from_text("holmes:slow=50mbit").hosts[0].nics[1].bits_per_second, 5e7);
}

TEST(Spec, TakesRoundTripAndLossOfALink) {
  Spec plain = Spec::from_text("two-clusters:hosts=2");
  EXPECT_FALSE(plain.links.at(0).relayed());
  Spec spec = Spec::from_text("two-clusters:hosts=2,rate=1gbit,rtt=20ms,loss=0.1%");
  ASSERT_EQ(spec.links.size(), 1U);
  EXPECT_TRUE(spec.links[0].relayed());
  EXPECT_EQ(spec.links[0].round_trip, std::chrono::milliseconds(20));
  EXPECT_DOUBLE_EQ(spec.links[0].loss, 0.001);
  expect_in(text_message("two-clusters:rtt=20"), "'20' is not a time");
  expect_in(text_message("two-clusters:rtt=11s"), "above 10 s");
  expect_in(text_message("two-clusters:loss=0.1"), "'0.1' is not a share of packets lost");
  expect_in(text_message("two-clusters:loss=100%"), "less than 100%");
}

TEST(Spec, PutsSeveralNicsBehindOnePort) {
  const std::string host =
      R"({"hosts": [{"name": "x0", "cluster": "X", "nics": [{"name": "eth0", "rate": "100mbit"}, %]}], "name": "lab"})";
  const auto with = [&](const std::string& second) {
    std::string text = host;
    return text.replace(text.find('%'), 1, second);
  };
  const Spec spec = Spec::parse(
      JsonDocument::parse(with(R"({"name": "vip", "fabric": "storage", "behind": "eth0"})"), "spec.json"));
  const NicSpec& second = spec.hosts[0].nics[1];
  EXPECT_EQ(second.bits_per_second, 1e8);
  EXPECT_EQ(second.segment, spec.hosts[0].nics[0].segment);
  const NetworkScript script = make_network_script(spec, {"/proc/7/ns/net"});
  expect_in(script.host_ip[0], "link add link eth0 name vip type macvlan");
  EXPECT_EQ(script.host_tc[0].find("vip"), std::string::npos) << "one bucket for both";
  EXPECT_EQ(script.hub_ip.find("h0n1"), std::string::npos);
  expect_in(parse_message(with(R"({"name": "vip", "fabric": "storage", "behind": "eth1"})")),
            "no earlier NIC");
  expect_in(parse_message(with(R"({"name": "vip", "behind": "eth0"})")), "another \"fabric\"");
  expect_in(parse_message(with(R"({"name": "vip", "fabric": "s", "behind": "eth0", "rate": "1gbit"})")),
            "nics[1].rate: it is that of");
}

TEST(Spec, GivesEveryPathItsNicsFabricAndRate) {
  Spec spec = Spec::from_text("two-paths:rates=1gbit/250mbit/100mbit,rtt=4ms");
  ASSERT_EQ(spec.hosts.size(), 2U);
  ASSERT_EQ(spec.hosts[1].nics.size(), 3U);
  ASSERT_EQ(spec.links.size(), 3U);
  EXPECT_EQ(spec.hosts[0].nics[1].name, "eth1");
  EXPECT_EQ(spec.hosts[0].nics[1].fabric, spec.hosts[1].nics[1].fabric);
  EXPECT_NE(spec.hosts[0].nics[0].fabric, spec.hosts[0].nics[1].fabric);
  EXPECT_EQ(spec.hosts[0].nics[1].bits_per_second, 2.5e8);
  EXPECT_EQ(spec.links[2].bits_per_second, 1e8);
  EXPECT_EQ(spec.links[2].first, spec.hosts[0].nics[2].segment);
  expect_in(text_message("two-paths:rates=1gbit/quick"), "'quick' is not a rate");
  expect_in(text_message("two-paths:rates="), "'' is not a rate");
}

TEST(Spec, SaysWhichParameterIsWrong) {
  expect_in(text_message("holmes:speed=1gbit"), "'speed=1gbit' is not one of its settings");
  expect_in(text_message("two-clusters:rate=quick"), "'quick' is not a rate");
  expect_in(text_message("two-clusters:hosts=3"), "even number");
  expect_in(text_message("two-clusters:hosts=2000"), "even number");
  expect_in(text_message("holms"), "the built-in ones are holmes, two-clusters and two-paths");
  expect_in(text_message("/nowhere/spec.json"), "/nowhere/spec.json");
}

TEST(Spec, GivesEachNicAnAddressOnItsFabricsSubnet) {
  Spec spec = Spec::from_text("holmes");
  EXPECT_EQ(spec.address(0, 0, false), "10.77.0.1");
  EXPECT_EQ(spec.address(0, 1, false), "10.77.1.1");
  EXPECT_EQ(spec.address(3, 0, false), "10.77.2.4");
  EXPECT_EQ(spec.address(3, 1, true), "127.77.1.4");
}

constexpr const char* kSmall = R"({"name": "small",
 "hosts": [
  {"name": "x", "cluster": "A", "devices": 2, "nics": [{"name": "eth0", "rate": "100mbit", "segment": "left"}]},
  {"name": "y", "cluster": "B", "nics": [{"name": "eth0", "rate": "1gbit", "segment": "right", "shaped": false}]}],
 "links": [{"between": ["left", "right"], "rate": "10mbit"}]})";

std::string small_with(const std::string& from, const std::string& to) {
  std::string text = kSmall;
  std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Spec, ReadsAFile) {
  Spec spec = Spec::parse(JsonDocument::parse(kSmall, "spec.json"));
  EXPECT_EQ(spec.devices(), 3);
  EXPECT_TRUE(spec.hosts[0].nics[0].shaped);
  EXPECT_FALSE(spec.hosts[1].nics[0].shaped);
  EXPECT_EQ(spec.segments(), (std::vector<std::string>{"left", "right"}));
  EXPECT_EQ(spec.fabrics(), std::vector<std::string>{""});
}

TEST(Spec, NamesLineAndFieldOfWhatIsWrongInAFile) {
  expect_in(parse_message(small_with("\"100mbit\"", "\"fast\"")), "spec.json:3: hosts[0].nics[0].rate");
  expect_in(parse_message(small_with("\"devices\": 2", "\"devices\": 0")), "spec.json:3: hosts[0].devices");
  expect_in(parse_message(small_with("\"devices\"", "\"device\"")), "device");
  expect_in(parse_message(small_with("[\"left\", \"right\"]", "[\"left\"]")),
            "spec.json:5: links[0].between");
  expect_in(parse_message(small_with("\"shaped\": false", "\"kind\": \"atm\"")), "'atm' is none of");
}

TEST(Spec, RejectsNetworksThatCannotBe) {
  expect_in(parse_message(small_with("\"y\"", "\"x\"")), "two hosts are named 'x'");
  expect_in(parse_message(small_with("\"between\": [\"left\"", "\"between\": [\"middle\"")),
            "segment 'middle'");
  expect_in(parse_message(small_with("\"between\": [\"left\"", "\"between\": [\"right\"")), "closes a loop");
  expect_in(parse_message(small_with("\"name\": \"eth0\"", "\"name\": \"lo\"")), "not an interface name");
  expect_in(parse_message(small_with("\"name\": \"eth0\"", "\"name\": \"a b; reboot\"")),
            "not an interface name");
  expect_in(parse_message(small_with("{\"between\": [\"left\", \"right\"], \"rate\": \"10mbit\"}", "")),
            "segments that no link joins");
  expect_in(parse_message(small_with("\"segment\": \"left\"", "\"segment\": \"left\", \"fabric\": \"F\"")),
            "no fabric has a NIC on every host");
  expect_in(parse_message(small_with("\"rate\": \"100mbit\"", "\"rate\": \"9\"")), "at least 100kbit");
  expect_in(parse_message(R"({"name": "none", "hosts": []})"), "no hosts");
}

TEST(NetworkScript, ShapesBothEndsOfAShapedNicAndOfALink) {
  Spec spec = Spec::parse(JsonDocument::parse(kSmall, "spec.json"));
  NetworkScript script = make_network_script(spec, {"/ns/x", "/ns/y"});
  expect_in(script.hub_ip, "link add name h0n0 type veth peer name eth0 netns /ns/x\n");
  expect_in(script.hub_ip, "link set dev h0n0 addrgenmode none master br0 up\n");
  expect_in(script.hub_ip, "link set dev h1n0 addrgenmode none master br1 up\n");
  expect_in(script.hub_tc, "dev h0n0 root tbf rate 100000000bit");
  expect_in(script.host_tc[0], "dev eth0 root tbf rate 100000000bit");
  EXPECT_EQ(script.host_tc[1], "");
  EXPECT_EQ(script.hub_tc.find("h1n0"), std::string::npos);
  expect_in(script.hub_tc, "dev l0a root tbf rate 10000000bit");
  expect_in(script.hub_tc, "dev l0b root tbf rate 10000000bit");
  expect_in(script.host_ip[1], "addr add 10.77.0.2/24 dev eth0\n");
}

TEST(Spec, ReadsLongLinksFromAFile) {
  Spec spec = Spec::parse(JsonDocument::parse(
      small_with(R"("rate": "10mbit")", R"("rate": "10mbit", "rtt": "30ms", "loss": "2%", "queue": "1M")"),
      "spec.json"));
  EXPECT_EQ(spec.links[0].round_trip, std::chrono::milliseconds(30));
  EXPECT_DOUBLE_EQ(spec.links[0].loss, 0.02);
  EXPECT_EQ(spec.links[0].queue_bytes, 1U << 20);
  auto with = [&](const std::string& more) {
    return parse_message(small_with(R"("rate": "10mbit")", R"("rate": "10mbit", )" + more));
  };
  expect_in(with(R"("rtt": "long")"), "spec.json:5: links[0].rtt");
  expect_in(with(R"("loss": "all")"), "links[0].loss");
  expect_in(with(R"("rtt": "1ms", "queue": "1K")"), "a queue from 132K");
  expect_in(with(R"("queue": "1M")"), "only a link with rtt or loss");
}

TEST(NetworkScript, LeavesRelayedLinksToTheirRelay) {
  Spec spec = Spec::from_text("two-clusters:hosts=2,rtt=1ms");
  NetworkScript script = make_network_script(spec, {"/ns/x", "/ns/y"});
  EXPECT_EQ(script.hub_ip.find("link add name l0a"), std::string::npos) << "the TAP device is there already";
  expect_in(script.hub_ip, "link set dev l0a addrgenmode none txqueuelen");
  EXPECT_EQ(script.hub_tc.find("l0a"), std::string::npos);
}

TEST(NetworkScript, HoldsTheLargestPacketInEveryBucket) {
  EXPECT_EQ(burst_bytes(1e8), 64U * 1024);
  EXPECT_GT(burst_bytes(1e9), 64U * 1024);
  EXPECT_EQ(burst_bytes(1e9), 256U * 1024);
  EXPECT_EQ(burst_bytes(8e9), 1000000U);
}

}  // namespace
}  // namespace tombolo::emulation
