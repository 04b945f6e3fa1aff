#include "net_plugin/comms/stall.h"

#include <gtest/gtest.h>

namespace tombolo::net_plugin {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(StallWatch, TellsOnceAfterTheLimitAndOnceAfterTenTimesThat) {
  FakeClock clock;
  clock.advance(seconds(1000));
  StallWatch watch;
  std::vector<Duration> told;
  for (int i = 0; i < 1000; ++i) {
    if (const auto stalled = watch.look(7, clock.now(), seconds(30))) told.push_back(*stalled);
    clock.advance(seconds(1));
  }
  EXPECT_EQ(told, (std::vector<Duration>{seconds(30), seconds(300)}));
}

TEST(StallWatch, BeginsAgainWithEveryByteAndEveryPost) {
  FakeClock clock;
  StallWatch watch;
  for (std::uint64_t moved = 0; moved < 100; ++moved) {
    EXPECT_EQ(watch.look(moved, clock.now(), seconds(30)), std::nullopt);
    clock.advance(seconds(29));
    EXPECT_EQ(watch.look(moved, clock.now(), seconds(30)), std::nullopt);
    clock.advance(seconds(29));
  }
  EXPECT_NE(watch.look(99, clock.now(), seconds(30)), std::nullopt);
  // The program computed for an hour, and then posts again: nothing stalls yet.
  clock.advance(std::chrono::hours(1));
  watch.begin();
  EXPECT_EQ(watch.look(99, clock.now(), seconds(30)), std::nullopt);
  clock.advance(milliseconds(29'999));
  EXPECT_EQ(watch.look(99, clock.now(), seconds(30)), std::nullopt);
  clock.advance(milliseconds(1));
  EXPECT_EQ(watch.look(99, clock.now(), seconds(30)), seconds(30));
}

TEST(StallWatch, IsDueNowAndThen) {
  StallWatch watch;
  unsigned due = 0;
  for (unsigned i = 0; i < 10 * StallWatch::kCalls; ++i) due += watch.due() ? 1 : 0;
  EXPECT_EQ(due, 10U);
}

TEST(StallReports, AProcessTellsOfAFewInEachPeriod) {
  FakeClock clock;
  clock.advance(seconds(1));
  StallReports reports(seconds(30), "3", "a0");
  int told = 0;
  for (int i = 0; i < 100; ++i) told += reports.may_tell(clock.now()) ? 1 : 0;
  EXPECT_EQ(told, StallReports::kMost);
  clock.advance(seconds(29));
  EXPECT_FALSE(reports.may_tell(clock.now()));
  clock.advance(seconds(1));
  EXPECT_TRUE(reports.may_tell(clock.now()));
}

TEST(StallText, NamesRankPeerNicsAndOperation) {
  StallFacts facts;
  facts.rank = "3";
  facts.host = "a0";
  facts.route.transport = "tcp";
  facts.route.local_nic = "eth0";
  facts.route.peer_nic = "eth1";
  facts.route.peer_host = "b7";
  facts.route.peer_address = "10.0.1.7";
  facts.sends = true;
  facts.bytes = 131072;
  facts.tag = 5;
  facts.messages_done = 412;
  facts.bytes_done = 3 << 20;
  facts.stalled = seconds(31);
  const std::string send = stall_text(facts);
  EXPECT_TRUE(
      send.starts_with("rank 3 on host a0: nothing has moved for 31 s in a send of 131072 bytes, tag 5, to "
                       "host b7 over tcp (eth0 -> eth1 10.0.1.7) after 412 messages and 3 MiB"))
      << send;
  EXPECT_NE(send.find("may not have posted the receive"), std::string::npos) << send;
  EXPECT_NE(send.find("TOMBOLO_NET_STALL"), std::string::npos) << send;

  facts.sends = false;
  facts.rank.clear();
  facts.route.peer_host.clear();
  facts.route.peer_nic.clear();
  facts.route.peer_address.clear();
  const std::string receive = stall_text(facts);
  EXPECT_TRUE(receive.starts_with("host a0: ")) << receive;
  EXPECT_NE(receive.find("receive of 131072 bytes, tag 5, from a peer over tcp (eth0 -> ?)"),
            std::string::npos)
      << receive;
  EXPECT_NE(receive.find("may compute still"), std::string::npos) << receive;
  facts.waits = StallWaits::kLane;
  EXPECT_NE(stall_text(facts).find("the connection of its tag is not there yet"), std::string::npos);
  facts.waits = StallWaits::kGpuCopy;
  EXPECT_NE(stall_text(facts).find("this host's GPU has not done the copy of a staged piece"),
            std::string::npos);
  facts.waits = StallWaits::kStaged;
  EXPECT_NE(stall_text(facts).find("may compute still, its GPU may not have done"), std::string::npos);
}

}  // namespace
}  // namespace tombolo::net_plugin
