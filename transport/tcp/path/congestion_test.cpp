#include "transport/tcp/path/congestion.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <mutex>

#include "base/error.h"
#include "transport/descriptor.h"

namespace tombolo::transport::tcp {
namespace {

using std::chrono::milliseconds;

TEST(CongestionChoice, IsAutoWithoutRules) {
  EXPECT_EQ(CongestionRules().choice("eth0", true), "auto");
  EXPECT_EQ(CongestionRules("", "X").choice("eth0", false), "auto");
  EXPECT_EQ(CongestionRules("short=reno", "X").choice("eth0", true), "auto");
}

TEST(CongestionChoice, OfANicGoesBeforeThatOfALengthAndThatBeforeAll) {
  CongestionRules rules("cubic,long=bbr,eth1=reno", "X");
  EXPECT_EQ(rules.choice("eth0", false), "cubic");
  EXPECT_EQ(rules.choice("eth0", true), "bbr");
  EXPECT_EQ(rules.choice("eth1", true), "reno");
  EXPECT_EQ(rules.choice("eth1", false), "reno");
}

TEST(CongestionChoice, NonsenseIsNamed) {
  for (const char* wrong :
       {"=bbr", "long=", "Bbr", "b br", "eth0=bbr=cubic", ",", "a_name_that_is_too_long"}) {
    try {
      CongestionRules rules(wrong, "TOMBOLO_TCP_CONGESTION");
      ADD_FAILURE() << "accepted '" << wrong << "'";
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
      EXPECT_NE(std::string(error.what()).find("TOMBOLO_TCP_CONGESTION"), std::string::npos);
    }
  }
}

TEST(LossWithoutQueue, IsLossWhileTheRoundTripStaysShort) {
  EXPECT_TRUE(loses_without_queue({10'000, 10, milliseconds(21), milliseconds(20)}));
  EXPECT_FALSE(loses_without_queue({10'000, 10, milliseconds(30), milliseconds(20)})) << "a full queue";
  EXPECT_FALSE(loses_without_queue({100'000, 1, milliseconds(20), milliseconds(20)})) << "hardly any";
  EXPECT_FALSE(loses_without_queue({100, 1, milliseconds(20), milliseconds(20)})) << "too few to say";
  EXPECT_FALSE(
      loses_without_queue({10'000, 100, std::chrono::microseconds(110), std::chrono::microseconds(100)}))
      << "a short path";
}

struct CongestionOfASocket : testing::Test {
  CongestionOfASocket() : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  Log log() {
    return Log(LogLevel::kInfo, [this](LogLevel, std::string_view line) { said.emplace_back(line); });
  }
  Descriptor socket;
  std::vector<std::string> said;
};

TEST_F(CongestionOfASocket, IsSetByName) {
  Congestion(CongestionRules("reno", "X"), log()).begin(socket.get(), "eth0");
  EXPECT_EQ(congestion_of(socket.get()), "reno");
  EXPECT_TRUE(said.empty());
}

TEST_F(CongestionOfASocket, StaysTheSystemsOnAShortPath) {
  const std::string before = congestion_of(socket.get());
  ASSERT_FALSE(before.empty());
  Congestion(CongestionRules(), log()).begin(socket.get(), "eth0");
  EXPECT_EQ(congestion_of(socket.get()), before);
}

TEST_F(CongestionOfASocket, WhatTheKernelRefusesIsSaidOnceAndTheSystemsStays) {
  const std::string before = congestion_of(socket.get());
  Congestion congestion(CongestionRules("no_such_thing", "X"), log());
  congestion.begin(socket.get(), "eth0");
  congestion.begin(socket.get(), "eth0");
  EXPECT_EQ(congestion_of(socket.get()), before);
  ASSERT_EQ(said.size(), 1U);
  for (const char* part : {"no_such_thing", "eth0", "modprobe"})
    EXPECT_NE(said[0].find(part), std::string::npos) << said[0];
}

}  // namespace
}  // namespace tombolo::transport::tcp
