#include "transport/tcp/stream/receiver.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "transport/descriptor.h"

namespace tombolo::transport::tcp {
namespace {

FrameHeader final_word(std::uint32_t epoch) {
  FrameHeader header;
  header.type = FrameType::kEpochSummary;
  header.offset = 3;
  header.total = std::uint64_t{epoch} << 32 | epoch;
  header.sequence = 7;
  return header;
}

class ReceiverOfWords : public testing::Test {
 protected:
  ReceiverOfWords() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    there_.reset(ends[1]);
    stream_.join(Descriptor(ends[0]), nullptr, 0);
  }
  void say(std::uint32_t epoch) {
    HeaderBytes bytes;
    encode(final_word(epoch), bytes);
    ASSERT_EQ(send(there_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }

  Stream stream_;
  Descriptor there_;
  Receiver receiver_;
};

TEST_F(ReceiverOfWords, ManyStreamsMaySayTheSameOfABrokenOneBeforeItIsHeard) {
  // Each of 64 streams says what each of 64 brought, and says it again: more than any list holds.
  for (int i = 0; i < 1000; ++i) {
    say(static_cast<std::uint32_t>(i % 4));
    if (i % 50 == 0) receiver_.read(stream_, SIZE_MAX);
  }
  receiver_.read(stream_, SIZE_MAX);
  EXPECT_EQ(receiver_.fault(), Receiver::Fault::kNone);
  EXPECT_EQ(receiver_.epoch_summaries().size(), 4U);
}

TEST_F(ReceiverOfWords, APeerThatSaysEverNewThingsOfBrokenStreamsIsStopped) {
  for (int i = 0; i < 2000 && receiver_.fault() == Receiver::Fault::kNone; ++i) {
    say(static_cast<std::uint32_t>(i));
    if (i % 50 == 0) receiver_.read(stream_, SIZE_MAX);
  }
  receiver_.read(stream_, SIZE_MAX);
  EXPECT_EQ(receiver_.fault(), Receiver::Fault::kMalformed);
}

// An acknowledgement takes both ends as long as a small message: better while this one waits anyway.
TEST_F(ReceiverOfWords, TellsWhatNobodyWaitsForWhenIdleBeforeItHasTo) {
  constexpr std::size_t kSize = 32 * 1024;
  std::vector<std::byte> into(kSize), sent(kHeaderBytes + kSize);
  int untold = 0;
  bool told_when_idle = false;
  for (std::uint64_t i = 0; i < 100; ++i) {
    PostedRequest request;
    request.data = into.data();
    request.size = kSize;
    request.state = PostedRequest::State::kPosted;
    receiver_.post(&request);
    FrameHeader chunk;
    chunk.type = FrameType::kChunk;
    chunk.sequence = i;
    chunk.length = kSize;
    chunk.total = kSize;
    HeaderBytes bytes;
    encode(chunk, bytes);
    std::ranges::copy(bytes, sent.begin());
    ASSERT_EQ(send(there_.get(), sent.data(), sent.size(), 0), std::ssize(sent));
    receiver_.read(stream_, SIZE_MAX);
    ASSERT_EQ(request.state, PostedRequest::State::kDone);
    ++untold;
    // First it is never idle, later after every message.
    const bool had_to = receiver_.ack_due(stream_);
    if (i >= 50) stream_.receive.idle();
    if (!receiver_.ack_due(stream_)) continue;
    EXPECT_EQ(untold, had_to ? 6 : 4) << "messages of " << kSize;
    told_when_idle |= !had_to;
    EXPECT_TRUE(i < 60 || !had_to);
    stream_.receive.told();
    untold = 0;
  }
  EXPECT_TRUE(told_when_idle);
}

// Else both ends may wait for ever: this one for the chunk of a broken stream that the peer would send again,
// the peer for the count of what that stream brought, which lies behind the damage.
TEST_F(ReceiverOfWords, ADamagedHeaderBehindAChunkThatWaitsForItsReceiveBreaksTheStream) {
  FrameHeader chunk;
  chunk.type = FrameType::kChunk;
  chunk.length = 100;
  chunk.total = 100;
  HeaderBytes bytes;
  encode(chunk, bytes);
  std::vector<std::byte> sent(bytes.begin(), bytes.end());
  sent.resize(sent.size() + chunk.length);
  encode(final_word(1), bytes);
  sent.insert(sent.end(), bytes.begin(), bytes.end());
  ASSERT_EQ(send(there_.get(), sent.data(), sent.size(), 0), std::ssize(sent));
  EXPECT_EQ(receiver_.read(stream_, SIZE_MAX).error, 0);
  ASSERT_TRUE(stream_.receive.may_read_ahead());
  EXPECT_EQ(receiver_.epoch_summaries().size(), 1U);
  encode(final_word(2), bytes);
  bytes[kHeaderBytes / 2] ^= std::byte{1};
  ASSERT_EQ(send(there_.get(), bytes.data(), bytes.size(), 0), std::ssize(bytes));
  EXPECT_EQ(receiver_.read_ahead(stream_, SIZE_MAX).error, Receiver::kDamaged);
  EXPECT_EQ(stream_.receive.count(), 0U) << "the chunk did not count, and goes again";
}

class ReceiverOfAWaitingChunk : public ReceiverOfWords {
 protected:
  ReceiverOfAWaitingChunk() {
    FrameHeader chunk;
    chunk.type = FrameType::kChunk;
    chunk.total = chunk.length = kHeaderBytes;
    HeaderBytes bytes;
    encode(chunk, bytes);
    for (int part = 0; part < 2; ++part)  // its payload looks like a header
      EXPECT_EQ(send(there_.get(), bytes.data(), bytes.size(), 0), std::ssize(bytes));
    EXPECT_EQ(receiver_.read(stream_, SIZE_MAX).error, 0);
    EXPECT_TRUE(stream_.receive.may_read_ahead());
  }
};

// Else an end whose peer died would read the same end again and again, and wait for ever.
TEST_F(ReceiverOfAWaitingChunk, IsReadAheadNoFurtherThanTheStreamsEnd) {
  there_.reset();
  EXPECT_EQ(receiver_.read_ahead(stream_, SIZE_MAX).error, 0);
  EXPECT_FALSE(stream_.receive.may_read_ahead());
  EXPECT_TRUE(stream_.receive.ends_behind_a_chunk());
}

TEST_F(ReceiverOfAWaitingChunk, TellsAGoodbyeBehindItFromAnEndWithoutOne) {
  FrameHeader ack;
  ack.type = FrameType::kAck;
  ack.ack = 3;
  FrameHeader goodbye;
  goodbye.type = FrameType::kGoodbye;
  goodbye.reason = GoodbyeReason::kClosed;
  EXPECT_FALSE(stream_.receive.said_goodbye());
  for (const FrameHeader& header : {ack, goodbye}) {
    HeaderBytes bytes;
    encode(header, bytes);
    ASSERT_EQ(send(there_.get(), bytes.data(), bytes.size(), 0), std::ssize(bytes));
  }
  there_.reset();
  EXPECT_TRUE(receiver_.rest_reaches_the_end(stream_));
  EXPECT_TRUE(stream_.receive.said_goodbye());
  EXPECT_EQ(stream_.receive.peer_ack(), 3U);
}

TEST_F(ReceiverOfAWaitingChunk, ThatEndsWithoutAGoodbyeHasNone) {
  there_.reset();
  EXPECT_TRUE(receiver_.rest_reaches_the_end(stream_));
  EXPECT_FALSE(stream_.receive.said_goodbye());
}

TEST_F(ReceiverOfAWaitingChunk, TellsThatTheStreamWasReset) {
  // A socket of this kind is reset where its peer closes it with unread bytes.
  ASSERT_EQ(send(stream_.socket(), "unread", 6, 0), 6);
  there_.reset();
  EXPECT_EQ(receiver_.read_ahead(stream_, SIZE_MAX).error, ECONNRESET);
}

}  // namespace
}  // namespace tombolo::transport::tcp
