#include "transport/channel/peer_watch.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "transport/descriptor.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::channel {
namespace {

class LinkToAPeer : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    here_.reset(ends[0]);
    there_.reset(ends[1]);
  }
  void peer_writes(std::span<const std::byte> bytes) {
    ASSERT_EQ(::send(there_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
  }

  Descriptor here_, there_;
  FakeClock clock_;
};

TEST_F(LinkToAPeer, SaysNothingWhileThePeerIsThere) {
  PeerWatch watch(here_.get(), &clock_);
  EXPECT_EQ(watch.look(), "");
  EXPECT_FALSE(watch.closing());
}

TEST_F(LinkToAPeer, BringsAGoodbyeThatComesInPieces) {
  PeerWatch watch(here_.get(), &clock_), peer(there_.get(), &clock_);
  const auto bytes = Goodbye{GoodbyeReason::kTooLarge, 1, 2, 3, 1000, 999, ""}.encode();
  for (std::size_t at = 0; at < bytes.size(); at += 32) {
    EXPECT_FALSE(watch.closing());
    peer_writes(std::span(bytes).subspan(at, 32));
    EXPECT_EQ(watch.look(), "");
  }
  ASSERT_TRUE(watch.closing());
  ASSERT_TRUE(watch.goodbye());
  EXPECT_EQ(watch.goodbye()->received, 3u);
  test::expect_in(watch.ending(), "a message of 1000 bytes, but the receive posted for it takes 999");
}

TEST_F(LinkToAPeer, EndsWithWhatThePeerSaidOrThatItSaidNothing) {
  for (const auto& [why, part] : {std::pair{GoodbyeReason::kClosed, "the peer closed the connection"},
                                  std::pair{GoodbyeReason::kFailed, "failure of its own: no memory"}}) {
    PeerWatch watch(here_.get(), &clock_), peer(there_.get(), &clock_);
    peer.say({why, 0, 0, 0, 0, 0, "no memory"});
    EXPECT_EQ(watch.look(), "");
    test::expect_in(watch.ending(), part);
  }
  PeerWatch watch(here_.get(), &clock_), peer(there_.get(), &clock_);
  peer_writes(std::vector<std::byte>(10));
  peer.shut();
  EXPECT_EQ(watch.look(), "");
  EXPECT_TRUE(watch.closing());
  EXPECT_FALSE(watch.goodbye());
  test::expect_in(watch.ending(), "vanished");
}

TEST_F(LinkToAPeer, NamesAGoodbyeThatMakesNoSense) {
  PeerWatch watch(here_.get(), &clock_);
  peer_writes(std::vector<std::byte>(Goodbye::kBytes, std::byte{77}));
  test::expect_in(watch.look(), "unknown reason 77");
}

TEST_F(LinkToAPeer, HasPatienceForTwoSecondsFromTheEndAndLongerWhereAsked) {
  PeerWatch watch(here_.get(), &clock_);
  EXPECT_FALSE(watch.patient());
  there_.reset();
  EXPECT_EQ(watch.look(), "");
  EXPECT_TRUE(watch.patient());
  clock_.advance(std::chrono::milliseconds(1999));
  EXPECT_TRUE(watch.patient());
  watch.prolong();
  clock_.advance(std::chrono::milliseconds(1999));
  EXPECT_TRUE(watch.patient());
  clock_.advance(std::chrono::milliseconds(1));
  EXPECT_FALSE(watch.patient());
  watch.prolong();
  watch.give_up();
  EXPECT_FALSE(watch.patient());
}

}  // namespace
}  // namespace tombolo::transport::channel
