#include "transport/tcp/stream/wire.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <random>
#include <string_view>

#include "base/randomized_test.h"
#include "transport/descriptor.h"
#include "transport/tcp/stream/receiver.h"

namespace tombolo::transport::tcp {
namespace {

TEST(FrameHeader, SurvivesItsEncoding) {
  HeaderBytes bytes;
  encode({FrameType::kChunk, GoodbyeReason::kClosed, 100, 7, 1000, 900}, bytes);
  auto header = decode(bytes);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->length, 100u);
  EXPECT_EQ(header->sequence, 7u);
  EXPECT_EQ(header->total, 1000u);
  EXPECT_EQ(header->offset, 900u);
}

TEST(FrameHeader, ChunksOutsideTheirMessageAreNoChunks) {
  auto accepted = [](const FrameHeader& header) {
    HeaderBytes bytes;
    encode(header, bytes);
    return decode(bytes).has_value();
  };
  FrameHeader good{FrameType::kChunk, GoodbyeReason::kClosed, 100, 0, 1000, 900};
  EXPECT_TRUE(accepted(good));
  FrameHeader bad = good;
  bad.offset = 901;
  EXPECT_FALSE(accepted(bad));
  bad.offset = UINT64_MAX - 50;  // offset + length wraps
  EXPECT_FALSE(accepted(bad));
  bad = good;
  bad.length = 0;
  EXPECT_FALSE(accepted(bad)) << "an empty chunk of a message with bytes";
  bad = good;
  bad.type = static_cast<FrameType>(77);
  EXPECT_FALSE(accepted(bad));
  bad = good;
  bad.total = UINT64_MAX;
  bad.length = UINT32_MAX;
  EXPECT_FALSE(accepted(bad)) << "longer than any chunk";
}

TEST(FrameHeader, OfAFinalSurvivesItsEncodingThoughItHasMoreBitsThanOthers) {
  HeaderBytes bytes;
  FrameHeader said{FrameType::kEpochSummary, GoodbyeReason::kClosed, 0, UINT32_MAX, 0, kMostStreams - 1};
  said.total = 0xfedcba98'fedcba98;
  encode(said, bytes);
  auto header = decode(bytes);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->sequence, UINT32_MAX);
  EXPECT_EQ(header->total, said.total);
  EXPECT_EQ(header->offset, kMostStreams - 1u);
  said.sequence = 0;
  said.total = 0x00000003'fedcba98;
  encode(said, bytes);
  header = decode(bytes);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->sequence, 0u);
  EXPECT_EQ(header->total, said.total);
}

TEST(FrameHeader, KeepsTheLargestSizesAndNamesCapacitiesBeyondThemByTheLargest) {
  HeaderBytes bytes;
  encode({FrameType::kChunk, GoodbyeReason::kClosed, 1, UINT64_MAX, kLongestMessage, kLongestMessage - 1},
         bytes);
  auto header = decode(bytes);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->sequence, UINT64_MAX);
  EXPECT_EQ(header->total, kLongestMessage);
  EXPECT_EQ(header->offset, kLongestMessage - 1);
  encode({FrameType::kGoodbye, GoodbyeReason::kTooLarge, 0, 5, 1000, UINT64_MAX}, bytes);
  header = decode(bytes);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->offset, kLongestMessage);
}

TEST(FrameHeader, ShowsEveryChangeOfOneBitOrTwo) {
  HeaderBytes bytes;
  FrameHeader chunk{FrameType::kChunk, GoodbyeReason::kClosed, 100, 7, 1000, 900};
  chunk.ack = 12345;
  encode(chunk, bytes);
  EXPECT_TRUE(intact(bytes));
  const auto flip = [&](std::size_t bit) { bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8); };
  for (std::size_t one = 0; one < 8 * kHeaderBytes; ++one) {
    flip(one);
    EXPECT_FALSE(intact(bytes)) << "bit " << one;
    for (std::size_t other = 0; other < one; ++other) {
      flip(other);
      EXPECT_FALSE(intact(bytes)) << "bits " << one << " and " << other;
      flip(other);
    }
    flip(one);
  }
  EXPECT_TRUE(intact(bytes));
}

/// A receiver fed by hand with frames.
class Fed : public testing::Test {
 protected:
  explicit Fed(std::size_t streams = 1) {
    receiver_ = std::make_unique<Receiver>();
    for (std::size_t i = 0; i < streams; ++i) {
      int pair[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0) ADD_FAILURE() << "socketpair";
      feeders_.emplace_back(pair[0]);
      streams_.emplace_back().join(Descriptor(pair[1]), nullptr, 0);
    }
  }

  void feed(std::size_t stream, const FrameHeader& header, std::string_view payload = {}) {
    HeaderBytes bytes;
    encode(header, bytes);
    ASSERT_EQ(write(feeders_[stream].get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    ASSERT_EQ(write(feeders_[stream].get(), payload.data(), payload.size()),
              static_cast<ssize_t>(payload.size()));
    receiver_->read(streams_[stream], SIZE_MAX);
  }
  PostedRequest* post(std::size_t size) {
    buffers_.emplace_back(size);
    PostedRequest* request = pool_.take(buffers_.back().data(), size);
    receiver_->post(request);
    for (Stream& stream : streams_) receiver_->go_on(stream);
    return request;
  }
  static FrameHeader chunk(std::uint64_t sequence, std::uint64_t offset, std::uint32_t length,
                           std::uint64_t total) {
    return {FrameType::kChunk, GoodbyeReason::kClosed, length, sequence, total, offset};
  }

  std::vector<Descriptor> feeders_;
  std::vector<Stream> streams_;
  std::unique_ptr<Receiver> receiver_;
  RequestPool pool_{false};
  std::vector<std::vector<std::byte>> buffers_;
};

class FedByTwo : public Fed {
 protected:
  FedByTwo() : Fed(2) {}
};

TEST_F(Fed, BelievesNothingOfADamagedHeader) {
  for (const FrameType type :
       {FrameType::kChunk, FrameType::kGoodbye, FrameType::kAck, FrameType::kEpochSummary}) {
    for (std::size_t bit = 0; bit < 8 * kHeaderBytes; ++bit) {
      int pair[2];
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
      Descriptor feeder(pair[0]);
      Stream stream;
      stream.join(Descriptor(pair[1]), nullptr, 0);
      Receiver receiver;
      RequestPool pool(false);
      std::vector<std::byte> buffer(64, std::byte{0x55});
      PostedRequest* request = pool.take(buffer.data(), buffer.size());
      receiver.post(request);
      std::vector<std::byte> wire(kHeaderBytes + 64, std::byte{0x11});
      FrameHeader header{type, GoodbyeReason::kClosed, 0, 0, 0, 0};
      if (type == FrameType::kChunk) header = chunk(0, 0, 64, 64);
      header.ack = 3;
      encode(header, std::span(wire).first<kHeaderBytes>());
      wire[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      ASSERT_EQ(write(feeder.get(), wire.data(), wire.size()), static_cast<ssize_t>(wire.size()));
      EXPECT_EQ(receiver.read(stream, SIZE_MAX).error, Receiver::kDamaged) << "bit " << bit;
      EXPECT_TRUE(stream.receive.damaged());
      EXPECT_EQ(receiver.fault(), Receiver::Fault::kNone);
      EXPECT_EQ(request->claimed, 0u);
      EXPECT_EQ(std::ranges::count(buffer, std::byte{0x55}), std::ssize(buffer)) << "bit " << bit;
      EXPECT_EQ(stream.receive.peer_ack(), 0u);
      EXPECT_TRUE(receiver.epoch_summaries().empty());
      EXPECT_FALSE(stream.receive.said_goodbye());
    }
  }
}

TEST_F(Fed, FindsDamageBehindAChunkThatWaitsAtOnceAndTheChunkDoesNotCount) {
  std::vector<std::byte> wire(2 * (kHeaderBytes + 3), std::byte{0x11});
  encode(chunk(0, 0, 3, 3), std::span(wire).first<kHeaderBytes>());
  encode(chunk(1, 0, 3, 3), std::span(wire).subspan<kHeaderBytes + 3, kHeaderBytes>());
  wire[kHeaderBytes + 3 + 4] ^= std::byte{1};  // the length
  ASSERT_EQ(write(feeders_[0].get(), wire.data(), wire.size()), static_cast<ssize_t>(wire.size()));
  EXPECT_EQ(receiver_->read(streams_[0], SIZE_MAX).error, Receiver::kDamaged);
  EXPECT_TRUE(streams_[0].receive.damaged());
  PostedRequest* first = post(3);
  EXPECT_EQ(first->state, PostedRequest::State::kPosted);
  EXPECT_EQ(first->claimed, 0u);
  EXPECT_EQ(streams_[0].receive.count(), 0u);
  EXPECT_EQ(receiver_->fault(), Receiver::Fault::kNone);
}

TEST_F(Fed, HoldsAChunkBackUntilItsReceiveIsPosted) {
  feed(0, chunk(0, 0, 3, 3), "abc");
  EXPECT_FALSE(streams_[0].receive.wants_data());
  PostedRequest* request = post(3);
  EXPECT_EQ(request->state, PostedRequest::State::kDone);
  EXPECT_TRUE(streams_[0].receive.wants_data());
}

TEST_F(Fed, TakesALaterMessageFirstSinceAStreamYetToComeMayBringTheOther) {
  PostedRequest* first = post(3);
  PostedRequest* second = post(3);
  feed(0, chunk(1, 0, 3, 3), "abc");
  EXPECT_EQ(receiver_->fault(), Receiver::Fault::kNone);
  EXPECT_EQ(first->state, PostedRequest::State::kPosted);
  EXPECT_EQ(second->state, PostedRequest::State::kDone);
}

TEST_F(Fed, RefusesToGoBackToAnEarlierMessage) {
  post(3);
  post(3);
  feed(0, chunk(1, 0, 3, 3), "abc");
  feed(0, chunk(0, 0, 3, 3), "abc");
  EXPECT_EQ(receiver_->fault(), Receiver::Fault::kMalformed);
}

TEST_F(Fed, RefusesAChunkThatComesTwice) {
  post(6);
  feed(0, chunk(0, 0, 3, 6), "abc");
  feed(0, chunk(0, 0, 3, 6), "abc");
  EXPECT_EQ(receiver_->fault(), Receiver::Fault::kMalformed);
}

TEST_F(Fed, RefusesAMessageThatChangesItsSize) {
  post(9);
  feed(0, chunk(0, 0, 3, 6), "abc");
  feed(0, chunk(0, 3, 3, 9), "def");
  EXPECT_EQ(receiver_->fault(), Receiver::Fault::kMalformed);
}

TEST_F(Fed, RefusesAFinishedMessage) {
  post(3);
  feed(0, chunk(0, 0, 3, 3), "abc");
  feed(0, chunk(0, 0, 3, 3), "abc");
  EXPECT_EQ(receiver_->fault(), Receiver::Fault::kMalformed);
}

TEST_F(Fed, RefusesAnythingAfterAGoodbye) {
  post(3);
  feed(0, {FrameType::kGoodbye, GoodbyeReason::kClosed, 0, 0, 0, 0});
  feed(0, chunk(0, 0, 3, 3), "abc");
  EXPECT_EQ(receiver_->fault(), Receiver::Fault::kMalformed);
}

TEST_F(FedByTwo, TakesChunksInAnyOrderAcrossStreams) {
  PostedRequest* first = post(6);
  PostedRequest* second = post(3);
  feed(1, chunk(1, 0, 3, 3), "xyz");
  EXPECT_EQ(second->state, PostedRequest::State::kDone);
  feed(0, chunk(0, 3, 3, 6), "def");
  feed(1, chunk(0, 0, 3, 6), "abc");
  // Stream 1 went back to an earlier message, which no honest sender does.
  EXPECT_EQ(receiver_->fault(), Receiver::Fault::kMalformed);
  EXPECT_EQ(first->state, PostedRequest::State::kPosted);
}

TEST_F(FedByTwo, RefusesAMessageWhoseChunksOverlapAndLeaveAHole) {
  PostedRequest* request = post(6);
  feed(0, chunk(0, 0, 3, 6), "abc");
  feed(1, chunk(0, 0, 3, 6), "abc");
  EXPECT_EQ(receiver_->fault(), Receiver::Fault::kMalformed);
  EXPECT_NE(request->state, PostedRequest::State::kDone);
}

TEST_F(Fed, RefusesAChunkThatIsSentAgainThoughItHadCome) {
  PostedRequest* request = post(6);
  FrameHeader again = chunk(0, 0, 3, 6);
  again.flags = kReplayFlag;
  feed(0, chunk(0, 0, 3, 6), "abc");
  feed(0, again, "abc");
  EXPECT_EQ(receiver_->fault(), Receiver::Fault::kMalformed);
  EXPECT_NE(request->state, PostedRequest::State::kDone);
}

// A message is whole exactly where its chunks lie one behind the other, in whatever order and by whatever
// stream they come.
TEST_F(FedByTwo, AMessageIsWholeWhereEveryByteHasComeOnce) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 2000; ++round) {
    const auto total = static_cast<std::uint32_t>(2 + random() % 60);
    std::vector<FrameHeader> chunks;
    for (std::uint32_t at = 0; at != total; at += chunks.back().length) {
      const auto length = static_cast<std::uint32_t>(1 + random() % (total - at));
      chunks.push_back(chunk(0, at, length, total));
      chunks.back().flags = kReplayFlag;  // so that they may come in any order
    }
    const bool moved = chunks.size() > 1 && random() % 2 == 0;
    if (moved) {
      FrameHeader& one = chunks[random() % chunks.size()];
      const std::uint64_t room = total - one.length;
      one.offset = (one.offset + 1 + random() % room) % (room + 1);
    }
    std::ranges::shuffle(chunks, random);
    receiver_ = std::make_unique<Receiver>();
    buffers_.clear();
    for (std::size_t i = 0; i < feeders_.size(); ++i) {
      int pair[2];
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
      feeders_[i] = Descriptor(pair[0]);
      streams_[i] = Stream();
      streams_[i].join(Descriptor(pair[1]), nullptr, 0);
    }
    PostedRequest* request = post(total);
    for (const FrameHeader& one : chunks) feed(random() % 2, one, std::string(one.length, 'x'));
    EXPECT_EQ(request->state == PostedRequest::State::kDone, !moved) << "round " << round;
    EXPECT_EQ(receiver_->fault(), moved ? Receiver::Fault::kMalformed : Receiver::Fault::kNone);
    pool_.put(request);
  }
}

TEST_F(FedByTwo, RefusesMoreBytesThanTheMessageHas) {
  post(6);
  feed(0, chunk(0, 0, 4, 6), "abcd");
  feed(1, chunk(0, 2, 4, 6), "cdef");
  EXPECT_EQ(receiver_->fault(), Receiver::Fault::kMalformed);
}

// Whoever waits for an acknowledgement may post the receive only after: one that has come must be seen,
// whatever waits before it and however the bytes were cut.
TEST_F(Fed, SeesEveryAcknowledgementThatHasComeAlsoBehindChunksThatWait) {
  std::mt19937_64 random(test_seed());
  constexpr std::uint32_t kMost = 200'000;
  for (int round = 0; round < 40; ++round) {
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    Descriptor feeder(pair[0]);
    Stream stream;
    stream.join(Descriptor(pair[1]), nullptr, 0);
    Receiver receiver;
    RequestPool pool(false);
    std::vector<std::byte> buffer(kMost);
    // Chunks, each a message, and acknowledgements alone or in their headers; where each has come whole.
    std::vector<std::byte> wire;
    std::vector<std::size_t> acks;
    constexpr int kMessages = 12;
    auto append = [&](FrameHeader header, std::size_t payload) {
      header.ack = static_cast<std::uint32_t>(acks.size() + 1);
      HeaderBytes bytes;
      encode(header, bytes);
      wire.insert(wire.end(), bytes.begin(), bytes.end());
      acks.push_back(wire.size());
      wire.resize(wire.size() + payload, std::byte{0x11});
    };
    for (std::uint64_t message = 0; message < kMessages; ++message) {
      const auto size = static_cast<std::uint32_t>(random() % 2 == 0 ? random() % 100 : random() % kMost);
      append(chunk(message, 0, size, size), size);
      for (std::size_t i = random() % 3; i > 0; --i) append({.type = FrameType::kAck}, 0);
    }
    std::size_t fed = 0, seen = 0;
    int posted = 0;
    std::vector<PostedRequest*> requests;
    for (int step = 0; requests.size() < kMessages || fed < wire.size(); ++step) {
      ASSERT_LT(step, 100'000);
      if (random() % 3 != 0) {
        const std::size_t piece = random() % 4 == 0 ? random() % 50'000 : random() % 200;
        const ssize_t took =
            write(feeder.get(), wire.data() + fed, std::min<std::size_t>(piece, wire.size() - fed));
        if (took > 0) fed += static_cast<std::size_t>(took);
      } else if (posted < kMessages && random() % 40 == 0) {
        requests.push_back(pool.take(buffer.data(), kMost));
        receiver.post(requests.back());
        receiver.go_on(stream);
        ++posted;
      }
      // As the connection does that needs acknowledgements.
      for (bool more = true; more;) {
        const auto result = stream.receive.may_read_ahead() ? receiver.read_ahead(stream, SIZE_MAX)
                                                            : receiver.read(stream, 1 + random() % kMost);
        more = result.read != 0;
      }
      ASSERT_EQ(receiver.fault(), Receiver::Fault::kNone);
      while (seen < acks.size() && acks[seen] <= fed) ++seen;
      ASSERT_EQ(stream.receive.peer_ack(), seen) << fed << " bytes, " << posted << " receives";
    }
    for (const PostedRequest* request : requests) ASSERT_EQ(request->state, PostedRequest::State::kDone);
  }
}

TEST_F(FedByTwo, RandomFramesNeverWriteOutsideTheReceives) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 3000; ++round) {
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    Descriptor feeder(pair[0]);
    Stream stream;
    stream.join(Descriptor(pair[1]), nullptr, 0);
    Receiver receiver;
    RequestPool pool(false);
    // On the heap, so that a sanitizer sees the slightest overrun.
    std::vector<std::vector<std::byte>> buffers;
    for (int i = 0; i < 4; ++i) {
      buffers.emplace_back(random() % 50);
      receiver.post(pool.take(buffers.back().data(), buffers.back().size()));
    }
    std::vector<std::byte> wire;
    for (int i = 0; i < 6; ++i) {
      HeaderBytes bytes;
      auto total = random() % 60;
      auto offset = random() % (total + 1);
      encode(chunk(random() % 5, random() % 3 == 0 ? offset : 0, static_cast<std::uint32_t>(random() % 50),
                   total),
             bytes);
      if (random() % 8 == 0) {
        bytes[random() % bytes.size()] = static_cast<std::byte>(random());
        if (random() % 4 != 0) seal(bytes);
      }
      wire.insert(wire.end(), bytes.begin(), bytes.end());
      wire.resize(wire.size() + random() % 50, std::byte{0x11});
    }
    ASSERT_EQ(write(feeder.get(), wire.data(), wire.size()), static_cast<ssize_t>(wire.size()));
    receiver.read(stream, SIZE_MAX);
  }
}

}  // namespace
}  // namespace tombolo::transport::tcp
