// Tests the findings from two hosts' facts and one way between them.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "tools/doctor/pair.h"

namespace tombolo::doctor {
namespace {

HostFacts host(int rank, const std::string& name) {
  HostFacts facts;
  facts.rank = rank;
  facts.host = name;
  facts.machine = "boot " + name;
  facts.version = "1.0";
  HostFacts::NicFacts nic;
  nic.name = "eth0";
  nic.kind = "tcp";
  nic.address = "10.0.0." + std::to_string(rank + 1);
  nic.mtu = 1500;
  nic.rate_bits_per_second = 1'000'000'000;
  nic.tcp_port = 4000;
  facts.nics.push_back(nic);
  facts.settings = {{"net.core.somaxconn", "4096"},
                    {"net.ipv4.tcp_rmem", "4096 131072 6291456"},
                    {"net.ipv4.tcp_wmem", "4096 16384 6291456"},
                    {"net.ipv4.tcp_window_scaling", "1"},
                    {"net.ipv4.tcp_sack", "1"},
                    {"net.ipv4.tcp_congestion_control", "cubic"},
                    {"net.ipv4.tcp_available_congestion_control", "reno cubic bbr"}};
  return facts;
}

Way healthy() {
  Way way;
  way.nic = way.peer_nic = "eth0";
  way.peer_address = "10.0.0.2";
  way.peer_port = 4000;
  way.reach = Way::Reach::kConnected;
  way.round_trip = 0.0002;
  way.clock_ahead = 0.0001;
  way.clock_error = 0.0001;
  way.segments = 700;
  way.path_mtu = 1500;
  way.packet_arrived = 1500;
  return way;
}

class Pair : public testing::Test {
 protected:
  /// The name of the only finding, or "none", or "several".
  Check only() {
    const auto findings = judge_way(mine_, theirs_, way_);
    if (findings.empty()) return {"none", Status::kOk, {}, {}};
    if (findings.size() > 1)
      return {"several", Status::kFailed, findings[0].name + ", " + findings[1].name, {}};
    EXPECT_FALSE(findings[0].advice.empty());
    return findings[0];
  }
  HostFacts mine_ = host(0, "a0"), theirs_ = host(1, "b0");
  Way way_ = healthy();
};

TEST_F(Pair, AHealthyWayGivesNoFinding) {
  EXPECT_EQ(only().name, "none");
  EXPECT_EQ(describe_way(theirs_, way_).status, Status::kOk);
  EXPECT_TRUE(judge_hosts(mine_, {mine_, theirs_}).empty());
}

TEST_F(Pair, ToldApartAreRefusedUnreachableAndVanished) {
  way_.reach = Way::Reach::kRefused;
  EXPECT_NE(only().seen.find("refuses"), std::string::npos);
  way_.reach = Way::Reach::kNoAnswer;
  EXPECT_EQ(only().name, "firewall");
  EXPECT_NE(only().seen.find("vanish"), std::string::npos);
  way_.reach = Way::Reach::kUnreachable;
  EXPECT_EQ(only().name, "route");
}

TEST_F(Pair, DifferentMtusAreNamedWithWhoHasTheSmaller) {
  theirs_.nics[0].mtu = 1400;
  way_.packet_arrived = 1400;
  way_.packet_lost = 1500;
  EXPECT_EQ(only().name, "MTU");
  EXPECT_NE(only().seen.find("1500 here and 1400 there"), std::string::npos);
  EXPECT_NE(only().advice.find("(there)"), std::string::npos);
}

TEST_F(Pair, AWayThatTakesSmallerPacketsThanBothEndsIsNamed) {
  way_.packet_arrived = 1400;
  way_.packet_lost = 1450;
  EXPECT_EQ(only().name, "path MTU");
  EXPECT_EQ(only().status, Status::kWarning);
  way_.bulk_arrived = false;
  EXPECT_EQ(only().status, Status::kFailed);
}

TEST_F(Pair, BuffersMustHoldWhatFillsThePath) {
  way_.round_trip = 0.004;  // one stream; 500 kB fill 1 Gbit/s
  EXPECT_EQ(only().name, "none");
  theirs_.settings["net.ipv4.tcp_rmem"] = "4096 65536 212992";
  EXPECT_EQ(only().name, "socket buffers");
  EXPECT_NE(only().advice.find("on b0: sysctl -w net.ipv4.tcp_rmem"), std::string::npos) << only().advice;
  theirs_ = host(1, "b0");
  mine_.settings["net.ipv4.tcp_wmem"] = "4096 65536 212992";
  EXPECT_NE(only().advice.find("on a0: sysctl -w net.ipv4.tcp_wmem"), std::string::npos) << only().advice;
  way_.round_trip = 0.0002;
  EXPECT_EQ(only().name, "none");
}

TEST_F(Pair, EightStreamsShareALongPath) {
  way_.round_trip = 0.1;  // 12.5 MB; eight streams of 6 MiB hold 25
  EXPECT_EQ(only().name, "none");
  way_.round_trip = 0.3;
  EXPECT_EQ(only().name, "socket buffers");
}

TEST_F(Pair, LossOnALongPathAsksForAnotherCongestionControl) {
  way_.round_trip = 0.03;
  way_.retransmitted = 14;
  EXPECT_EQ(only().name, "congestion control");
  EXPECT_EQ(only().advice, "sysctl -w net.ipv4.tcp_congestion_control=bbr");
  mine_.settings["net.ipv4.tcp_congestion_control"] = "bbr";
  EXPECT_EQ(only().name, "none");
}

TEST_F(Pair, WindowScalingAndClocksAreLookedAt) {
  way_.round_trip = 0.004;
  theirs_.settings["net.ipv4.tcp_window_scaling"] = "0";
  EXPECT_EQ(only().name, "window scaling");
  theirs_ = host(1, "b0");
  way_.clock_ahead = -3;
  EXPECT_EQ(only().name, "clock difference");
  EXPECT_NE(only().seen.find("is behind by 3"), std::string::npos) << only().seen;
  way_.clock_error = 2.95;
  EXPECT_EQ(only().name, "none");
}

TEST_F(Pair, RoceNeedsAGidTypeThatBothHave) {
  mine_.nics[0].kind = theirs_.nics[0].kind = "roce";
  mine_.nics[0].gid_types = {"IB/RoCE v1", "RoCE v2"};
  theirs_.nics[0].gid_types = {"IB/RoCE v1"};
  EXPECT_EQ(only().name, "none");
  mine_.nics[0].gid_types = {"RoCE v2"};
  EXPECT_EQ(only().name, "GID");
}

TEST_F(Pair, HostsDifferInVersionOrShareAName) {
  theirs_.version = "1.1";
  auto findings = judge_hosts(mine_, {mine_, theirs_});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].name, "versions");
  theirs_ = host(1, "b0");
  theirs_.host = "a0";
  findings = judge_hosts(mine_, {mine_, theirs_});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].name, "host names");
  theirs_.machine = mine_.machine;  // two ranks of one machine
  EXPECT_TRUE(judge_hosts(mine_, {mine_, theirs_}).empty());
}

TEST_F(Pair, FactsGoThroughJson) {
  const HostFacts again = host_facts_from_json(to_json(mine_));
  EXPECT_EQ(to_json(again), to_json(mine_));
  EXPECT_EQ(again.nics.at(0).address, "10.0.0.1");
}

TEST_F(Pair, FactsThatAreNoneAreTheOthersFault) {
  for (const char* text : {"[]", "{}", "null", R"({"rank": "x"})"}) {
    try {
      host_facts_from_json(nlohmann::json::parse(text));
      ADD_FAILURE() << text << " was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kRemote);
    }
  }
}

TEST(Responder, IsMeasuredOverLoopback) {
  HostFacts mine = host(0, "a0"), theirs = host(1, "b0");
  mine.nics[0].address = "127.0.0.1";
  theirs.nics[0].address = "127.0.0.2";
  mine.nics[0].mtu = theirs.nics[0].mtu = 65536;
  Responder responder(theirs);
  ASSERT_GT(theirs.nics[0].tcp_port, 0);
  const auto ways = measure_ways(mine, theirs);
  ASSERT_EQ(ways.size(), 1u);
  EXPECT_EQ(ways[0].reach, Way::Reach::kConnected) << ways[0].error;
  EXPECT_TRUE(ways[0].bulk_arrived);
  EXPECT_GT(ways[0].round_trip, 0);
  EXPECT_LT(std::abs(ways[0].clock_ahead), ways[0].clock_error + 0.01);
  EXPECT_EQ(ways[0].packet_arrived, 65'000);
  theirs.nics[0].tcp_port = 1;  // a port on which nothing listens
  EXPECT_EQ(measure_ways(mine, theirs).at(0).reach, Way::Reach::kRefused);
}

}  // namespace
}  // namespace tombolo::doctor
