#include "transport/tcp/stream/sender.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <vector>

#include "transport/descriptor.h"

namespace tombolo::transport::tcp {
namespace {

/// Two streams whose far ends take bytes at different rates.
class UnequalStreams : public testing::Test {
 protected:
  static constexpr std::size_t kChunk = 16 * 1024;

  UnequalStreams()
      : sender_({.chunk = kChunk, .backlog = kChunk, .copy_up_to = SIZE_MAX, .replay_bytes = 64 << 20}) {
    for (std::size_t i = 0; i < 2; ++i) {
      int ends[2];
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
      far_[i].reset(ends[1]);
      // As TCP_NOTSENT_LOWAT does for TCP: little waits in the kernel.
      const int small = kChunk;
      setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
      streams_[i].join(Descriptor(ends[0]), nullptr, 0);
    }
  }

  /// What a far end takes of its stream, at most `bytes`.
  std::size_t drain(std::size_t index, std::size_t bytes) {
    std::size_t taken = 0;
    while (taken < bytes) {
      const ssize_t got = recv(far_[index].get(), sink_.data(), std::min(sink_.size(), bytes - taken), 0);
      if (got <= 0) break;
      taken += static_cast<std::size_t>(got);
    }
    return taken;
  }

  std::array<Stream, 2> streams_;
  std::array<Descriptor, 2> far_;
  std::vector<std::byte> sink_ = std::vector<std::byte>(kChunk);
  Sender sender_;
};

TEST_F(UnequalStreams, PullChunksAsTheyHaveRoom) {
  constexpr std::size_t kMessages = 32, kSize = 1 << 20, kTotal = kMessages * kSize / kChunk;
  std::vector<std::byte> data(kSize);
  std::vector<PostedRequest> requests(kMessages);
  for (PostedRequest& request : requests) {
    request.data = data.data();
    request.size = data.size();
    sender_.post(&request);
  }
  std::array<std::size_t, 2> taken{};
  for (int turn = 0; turn < 1'000'000 && sender_.unwritten(); ++turn) {
    for (std::size_t i = 0; i < 2; ++i) ASSERT_EQ(sender_.flush(streams_[i], SIZE_MAX).error, 0);
    taken[0] += drain(0, 10 * 1024);
    taken[1] += drain(1, 1024);
    for (std::size_t i = 0; i < 2; ++i)
      ASSERT_TRUE(sender_.acknowledge(streams_[i], static_cast<std::uint32_t>(streams_[i].send.chunks())));
  }
  ASSERT_FALSE(sender_.unwritten());
  EXPECT_EQ(streams_[0].send.chunks() + streams_[1].send.chunks(), kTotal);
  const double ratio =
      static_cast<double>(streams_[0].send.chunks()) / static_cast<double>(streams_[1].send.chunks());
  EXPECT_GT(ratio, 9);
  EXPECT_LT(ratio, 11);
  // The slow one's last chunk is all that the end waits for.
  EXPECT_LT(taken[0] + taken[1], kTotal * (kChunk + kHeaderBytes) + 1);
  EXPECT_GT(taken[0] + taken[1], (kTotal - 8) * kChunk);
}

TEST_F(UnequalStreams, OneThatStandsStillHoldsBackWhatItTookAndNoMore) {
  constexpr std::size_t kSize = 4 << 20;
  std::vector<std::byte> data(kSize);
  PostedRequest request;
  request.data = data.data();
  request.size = data.size();
  sender_.post(&request);
  std::size_t moved = 1;
  for (int turn = 0; turn < 1'000'000 && moved != 0; ++turn) {
    moved = sender_.flush(streams_[0], SIZE_MAX).written + sender_.flush(streams_[1], SIZE_MAX).written;
    moved += drain(0, 10 * 1024);
  }
  EXPECT_LE(streams_[1].send.chunks(), 4U);
  EXPECT_GE(streams_[0].send.chunks(), kSize / kChunk - 6);
}

// The peer tells of small messages in batches, stream by stream. A batch that never fills on one stream would
// hold back what comes over the others for ever.
TEST_F(UnequalStreams, ManyUnacknowledgedMessagesMakeTheSenderAskForTheirAcknowledgement) {
  std::vector<std::byte> data(8);
  std::size_t urgent = 0, others = 0, posted = 0;
  std::vector<PostedRequest> requests(4096);
  for (; sender_.can_post(); ++posted) {
    requests[posted].data = data.data();
    requests[posted].size = data.size();
    sender_.post(&requests[posted]);
    // One stream has the first message, the other all the rest.
    ASSERT_EQ(sender_.flush(streams_[posted == 0 ? 0 : 1], SIZE_MAX).error, 0);
    HeaderBytes bytes;
    ASSERT_EQ(recv(far_[posted == 0 ? 0 : 1].get(), bytes.data(), bytes.size(), 0), std::ssize(bytes));
    ASSERT_EQ(drain(posted == 0 ? 0 : 1, data.size()), data.size());
    const bool asks = (decode(bytes)->flags & kUrgentFlag) != 0;
    ++(asks ? urgent : others);
    if (posted < 64) {
      EXPECT_FALSE(asks) << posted;
    }
    if (posted > 0) {
      ASSERT_TRUE(sender_.acknowledge(streams_[1], static_cast<std::uint32_t>(posted)));
    }
    ASSERT_LT(posted + 1, requests.size());
  }
  EXPECT_GT(urgent, 0U) << "and so the peer tells of the first message while there is room for more";
  EXPECT_GT(others, urgent / 2);
}

/// A message of four chunks, copied as it is written.
class CopiedMessage : public UnequalStreams {
 protected:
  static constexpr std::size_t kSize = 4 * kChunk;

  CopiedMessage() {
    for (std::size_t i = 0; i < kSize; ++i) data_[i] = static_cast<std::byte>(i / 7);
    request_.data = data_.data();
    request_.size = data_.size();
    sender_.post(&request_);
  }
  bool done() const { return request_.state == PostedRequest::State::kDone; }

  /// Writes to the stream and takes all that reaches its far end, until neither moves.
  void run(std::size_t index) {
    for (bool moved = true; moved;) {
      const auto result = sender_.flush(streams_[index], kChunk + kHeaderBytes);
      ASSERT_EQ(result.error, 0);
      moved = result.written != 0;
      for (ssize_t got; (got = recv(far_[index].get(), sink_.data(), sink_.size(), 0)) > 0; moved = true)
        came_[index].insert(came_[index].end(), sink_.begin(), sink_.begin() + got);
    }
  }
  /// What came on the stream lies where it belongs.
  void place(std::size_t index, std::vector<std::byte>& into) const {
    const std::vector<std::byte>& wire = came_[index];
    for (std::size_t at = 0; at < wire.size();) {
      const auto header = decode(std::span(wire).subspan(at).first<kHeaderBytes>());
      ASSERT_TRUE(header);
      at += kHeaderBytes;
      std::copy_n(wire.begin() + static_cast<std::ptrdiff_t>(at), header->length,
                  into.begin() + static_cast<std::ptrdiff_t>(header->offset));
      at += header->length;
    }
  }
  void rejoin(std::size_t index) {
    came_[index].clear();
    Descriptor socket = streams_[index].take_socket();
    streams_[index].lose({});
    streams_[index].join(std::move(socket), nullptr, 1);
  }

  std::vector<std::byte> data_ = std::vector<std::byte>(kSize);
  PostedRequest request_;
  std::array<std::vector<std::byte>, 2> came_;
};

TEST_F(CopiedMessage, GoesOnceMoreAsItWasAlthoughItsOwnerHasWrittenOverIt) {
  const std::vector<std::byte> sent = data_;
  ASSERT_GT(sender_.flush(streams_[0], kChunk + kHeaderBytes).written, kChunk);
  EXPECT_FALSE(done());
  run(1);
  run(0);
  EXPECT_TRUE(done());
  std::ranges::fill(data_, std::byte{0xff});
  for (std::size_t i = 0; i < 2; ++i) {
    sender_.lose(streams_[i]);
    ASSERT_TRUE(sender_.resolve_epoch(streams_[i], 0, 0, 0));
    rejoin(i);
    run(i);
  }
  std::vector<std::byte> received(kSize);
  for (std::size_t i = 0; i < 2; ++i) place(i, received);
  EXPECT_EQ(received, sent);
}

TEST_F(CopiedMessage, IsNotDoneWhileWhatABrokenStreamHadMayHaveToGoOnceMore) {
  ASSERT_GT(sender_.flush(streams_[0], kChunk + kHeaderBytes).written, kChunk);
  ASSERT_EQ(streams_[0].send.chunks(), 1U);
  sender_.lose(streams_[0]);
  run(1);
  EXPECT_EQ(streams_[1].send.chunks(), 3U);
  EXPECT_FALSE(done());
  // It did arrive: nobody will ask for an acknowledgement of the others.
  ASSERT_TRUE(sender_.resolve_epoch(streams_[0], 0, 0, 1));
  EXPECT_TRUE(done());
}

TEST_F(CopiedMessage, MayHaveToGoOnceMoreUntilItIsAcknowledgedWhereThePeerMayDropItsStream) {
  run(0);
  run(1);
  ASSERT_TRUE(done());
  const Stream& stream = streams_[0];
  EXPECT_FALSE(sender_.owes(stream, false));
  EXPECT_TRUE(sender_.owes(stream, true));
  ASSERT_TRUE(sender_.acknowledge(streams_[0], static_cast<std::uint32_t>(stream.send.chunks())));
  EXPECT_FALSE(sender_.owes(stream, true));
}

}  // namespace
}  // namespace tombolo::transport::tcp
