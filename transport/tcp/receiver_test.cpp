#include "transport/tcp/receiver.h"

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
    here_.reset(ends[0]);
    there_.reset(ends[1]);
    receiver_.join(0, here_.get());
  }
  void say(std::uint32_t epoch) {
    HeaderBytes bytes;
    encode(final_word(epoch), bytes);
    ASSERT_EQ(send(there_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }

  Descriptor here_, there_;
  Receiver receiver_;
};

TEST_F(ReceiverOfWords, ManyStreamsMaySayTheSameOfABrokenOneBeforeItIsHeard) {
  // Each of 64 streams says what each of 64 brought, and says it again: more than any list holds.
  for (int i = 0; i < 1000; ++i) {
    say(static_cast<std::uint32_t>(i % 4));
    if (i % 50 == 0) receiver_.read(0, SIZE_MAX);
  }
  receiver_.read(0, SIZE_MAX);
  EXPECT_EQ(receiver_.fault(), Receiver::Fault::kNone);
  EXPECT_EQ(receiver_.epoch_summaries().size(), 4U);
}

TEST_F(ReceiverOfWords, APeerThatSaysEverNewThingsOfBrokenStreamsIsStopped) {
  for (int i = 0; i < 2000 && receiver_.fault() == Receiver::Fault::kNone; ++i) {
    say(static_cast<std::uint32_t>(i));
    if (i % 50 == 0) receiver_.read(0, SIZE_MAX);
  }
  receiver_.read(0, SIZE_MAX);
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
    receiver_.read(0, SIZE_MAX);
    ASSERT_EQ(request.state, PostedRequest::State::kDone);
    ++untold;
    // First it is never idle, later after every message.
    const bool had_to = receiver_.ack_due(0);
    if (i >= 50) receiver_.idle();
    if (!receiver_.ack_due(0)) continue;
    EXPECT_EQ(untold, had_to ? 6 : 4) << "messages of " << kSize;
    told_when_idle |= !had_to;
    EXPECT_TRUE(i < 60 || !had_to);
    receiver_.told(0);
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
  EXPECT_EQ(receiver_.read(0, SIZE_MAX).error, 0);
  ASSERT_TRUE(receiver_.may_read_ahead(0));
  EXPECT_EQ(receiver_.epoch_summaries().size(), 1U);
  encode(final_word(2), bytes);
  bytes[kHeaderBytes / 2] ^= std::byte{1};
  ASSERT_EQ(send(there_.get(), bytes.data(), bytes.size(), 0), std::ssize(bytes));
  EXPECT_EQ(receiver_.read_ahead(0).error, Receiver::kDamaged);
  EXPECT_EQ(receiver_.lose(0), 0U) << "the chunk did not count, and goes again";
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
    EXPECT_EQ(receiver_.read(0, SIZE_MAX).error, 0);
    EXPECT_TRUE(receiver_.may_read_ahead(0));
  }
};

// Else an end whose peer died would read the same end again and again, and wait for ever.
TEST_F(ReceiverOfAWaitingChunk, IsReadAheadNoFurtherThanTheStreamsEnd) {
  there_.reset();
  EXPECT_EQ(receiver_.read_ahead(0).error, 0);
  EXPECT_FALSE(receiver_.may_read_ahead(0));
  EXPECT_TRUE(receiver_.ends_behind_a_chunk(0));
}

TEST_F(ReceiverOfAWaitingChunk, TellsThatTheStreamWasReset) {
  // A socket of this kind is reset where its peer closes it with unread bytes.
  ASSERT_EQ(send(here_.get(), "unread", 6, 0), 6);
  there_.reset();
  EXPECT_EQ(receiver_.read_ahead(0).error, ECONNRESET);
}

}  // namespace
}  // namespace tombolo::transport::tcp
