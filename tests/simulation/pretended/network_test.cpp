#include "tests/simulation/pretended/network.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace tombolo::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Two hosts with one NIC each, and a connection between them.
class NetworkTest : public testing::Test {
 protected:
  NetworkTest() {
    clock_.advance(seconds(1000));
    network_.path(0).delay = milliseconds(10);
    listener_ = std::make_shared<Socket>();
    listener_->own = {address_of(1, 0), 7000};
    network_.listen(listener_, 1);
  }
  std::shared_ptr<Socket> connecting() {
    auto socket = std::make_shared<Socket>();
    socket->own = {address_of(0, 0), 0};
    network_.connect(socket, listener_->own);
    return socket;
  }
  void connect() {
    here_ = connecting();
    pass(milliseconds(20));
    ASSERT_FALSE(listener_->waiting.empty());
    there_ = listener_->waiting.front();
    listener_->waiting.pop_front();
    there_->open = true;
  }
  void pass(Duration time) {
    clock_.advance(time);
    network_.settle();
  }
  std::ptrdiff_t write(Socket& socket, const std::string& text) {
    return network_.write(socket, std::as_bytes(std::span(text)));
  }
  std::string read(Socket& socket) {
    std::string text(1000, ' ');
    last_ = network_.read(socket, std::as_writable_bytes(std::span(text)), false);
    text.resize(last_ > 0 ? static_cast<std::size_t>(last_) : 0);
    return text;
  }

  FakeClock clock_;
  std::mt19937_64 random_{1};
  Network network_{clock_, random_};
  std::shared_ptr<Socket> listener_, here_, there_;
  std::ptrdiff_t last_ = 0;
};

TEST_F(NetworkTest, AConnectionTakesARoundTrip) {
  const auto socket = connecting();
  pass(milliseconds(19));
  EXPECT_EQ(socket->state, Socket::State::kConnecting);
  pass(milliseconds(1));
  EXPECT_EQ(socket->state, Socket::State::kConnected);
}

TEST_F(NetworkTest, APortThatNobodyListensAtRefuses) {
  network_.close(listener_);
  const auto socket = connecting();
  pass(milliseconds(20));
  EXPECT_EQ(socket->error, ECONNREFUSED);
}

TEST_F(NetworkTest, AFullBacklogAnswersLater) {
  const auto first = connecting(), second = connecting();
  pass(milliseconds(20));
  EXPECT_EQ(first->state, Socket::State::kConnected);
  EXPECT_EQ(second->state, Socket::State::kConnecting);
  listener_->waiting.clear();
  for (int i = 0; i < 100 && second->state == Socket::State::kConnecting; ++i) pass(milliseconds(100));
  EXPECT_EQ(second->state, Socket::State::kConnected);
}

TEST_F(NetworkTest, BytesArriveOnceInOrderAfterTheDelay) {
  connect();
  EXPECT_EQ(write(*here_, "one "), 4);
  EXPECT_EQ(write(*here_, "two"), 3);
  EXPECT_EQ(read(*there_), "");
  EXPECT_EQ(last_, -EAGAIN);
  pass(milliseconds(11));
  EXPECT_EQ(read(*there_), "one two");
  EXPECT_EQ(read(*there_), "");
}

TEST_F(NetworkTest, ASlowPathTakesAsLongAsItsRateSays) {
  connect();
  network_.path(0).bytes_per_second = 1000;
  write(*here_, std::string(500, 'x'));
  pass(milliseconds(509));
  EXPECT_EQ(read(*there_), "");
  pass(milliseconds(2));
  EXPECT_EQ(read(*there_).size(), 500u);
}

TEST_F(NetworkTest, AReaderThatReadsNothingFillsBothBuffersAndIsWokenOnceThereIsRoom) {
  connect();
  std::size_t taken = 0;
  for (std::ptrdiff_t got = 1; got > 0; pass(milliseconds(50))) {
    got = write(*here_, std::string(10'000, 'x'));
    if (got > 0) taken += static_cast<std::size_t>(got);
  }
  EXPECT_GT(taken, 100'000u);
  EXPECT_FALSE(here_->writable());
  const std::uint64_t edges = here_->out_edges;
  std::size_t seen = 0;
  for (int i = 0; i < 1000 && seen < taken; ++i) {
    seen += read(*there_).size();
    pass(milliseconds(1));
  }
  EXPECT_EQ(seen, taken);
  EXPECT_TRUE(here_->writable());
  EXPECT_GT(here_->out_edges, edges);
}

TEST_F(NetworkTest, TheEndOfAStreamComesBehindItsBytes) {
  connect();
  write(*here_, "last");
  network_.shut_write(*here_);
  pass(milliseconds(20));
  EXPECT_EQ(read(*there_), "last");
  EXPECT_EQ(read(*there_), "");
  EXPECT_EQ(last_, 0);
  EXPECT_EQ(write(*here_, "more"), -EPIPE);
  EXPECT_EQ(write(*there_, "answer"), 6);
}

TEST_F(NetworkTest, AResetOfBothEndsIsSeenAtOnceAndLosesWhatWasUnderWay) {
  connect();
  write(*here_, "lost");
  network_.reset(*here_, true, true);
  EXPECT_EQ(read(*there_), "");
  EXPECT_EQ(last_, -ECONNRESET);
  EXPECT_EQ(write(*here_, "x"), -ECONNRESET);
  EXPECT_EQ(network_.last_cut(), clock_.now());
}

TEST_F(NetworkTest, AnEndIsCutWhenItLearnsOfIt) {
  connect();
  network_.reset(*here_, true, true);
  const TimePoint cut = clock_.now();
  pass(milliseconds(3));
  EXPECT_EQ(network_.last_cut(), cut);
  EXPECT_EQ(network_.take_error(*there_), ECONNRESET);
  EXPECT_EQ(network_.last_cut(), cut + milliseconds(3));
}

TEST_F(NetworkTest, AResetOfOneEndIsSeenByTheOtherWhenItSends) {
  connect();
  network_.reset(*there_, true, false);
  pass(seconds(10));
  EXPECT_EQ(here_->state, Socket::State::kConnected);
  write(*here_, "x");
  pass(milliseconds(11));
  EXPECT_EQ(here_->state, Socket::State::kConnected);
  pass(milliseconds(10));
  EXPECT_EQ(read(*here_), "");
  EXPECT_EQ(last_, -ECONNRESET);
}

TEST_F(NetworkTest, WhatASilentPathLosesComesAgainOnceItSpeaks) {
  connect();
  network_.set_silent(0, true);
  write(*here_, "late");
  pass(seconds(1));
  EXPECT_EQ(read(*there_), "");
  EXPECT_GE(network_.unanswered(*here_), milliseconds(200));
  network_.set_silent(0, false);
  pass(seconds(1));
  EXPECT_EQ(read(*there_), "late");
  EXPECT_EQ(network_.unanswered(*here_), Duration::zero());
}

TEST_F(NetworkTest, ASocketThatIsClosedWithUnreadBytesResetsThePeer) {
  connect();
  write(*here_, "unread");
  pass(milliseconds(20));
  network_.close(there_);
  pass(milliseconds(20));
  EXPECT_EQ(read(*here_), "");
  EXPECT_EQ(last_, -ECONNRESET);
}

TEST_F(NetworkTest, AResetBehindThePeersEndIsToldApart) {
  connect();
  write(*there_, "last");
  network_.shut_write(*there_);
  pass(milliseconds(20));
  network_.reset(*here_, true, false);
  EXPECT_EQ(write(*here_, "x"), -EPIPE);
  EXPECT_EQ(read(*here_), "last");
  EXPECT_EQ(read(*here_), "");
  EXPECT_EQ(last_, 0);
}

TEST_F(NetworkTest, BehindAResetThatWasToldAReadFindsAnEnd) {
  connect();
  write(*there_, "last");
  pass(milliseconds(20));
  network_.reset(*here_, true, true);
  EXPECT_EQ(write(*here_, "x"), -ECONNRESET);
  EXPECT_EQ(read(*here_), "last");
  EXPECT_EQ(read(*here_), "");
  EXPECT_EQ(last_, 0);
}

TEST_F(NetworkTest, WhoClosesAStreamWithoutHavingHeardThatItWasCutCutsItThen) {
  connect();
  network_.reset(*there_, true, false);
  const TimePoint cut = clock_.now();
  pass(milliseconds(5));
  network_.close(here_);
  EXPECT_EQ(network_.last_cut(), cut + milliseconds(5));
}

TEST_F(NetworkTest, AStreamThatAnEndGivesUpInASilenceIsCutForTheOtherOnceThatLearnsOfIt) {
  connect();
  network_.set_silent(0, true);
  here_->reset_on_close = true;
  network_.close(here_);
  const TimePoint cut = clock_.now();
  EXPECT_EQ(network_.last_cut(), cut);
  pass(milliseconds(5));
  network_.set_silent(0, false);
  pass(milliseconds(50));
  network_.close(there_);
  EXPECT_EQ(network_.last_cut(), cut + milliseconds(55));
}

TEST_F(NetworkTest, AStreamThatAnEndResetsThoughItsPathWorksIsCutByNoFault) {
  connect();
  here_->reset_on_close = true;
  network_.close(here_);
  pass(milliseconds(50));
  EXPECT_EQ(there_->error, ECONNRESET);
  network_.close(there_);
  EXPECT_EQ(network_.last_cut(), TimePoint{});
}

}  // namespace
}  // namespace tombolo::simulation
