#include "transport/tcp/wire.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <random>
#include <string_view>

#include "transport/descriptor.h"
#include "transport/tcp/receiver.h"

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

/// A receiver fed by hand with frames.
class Fed : public testing::Test {
 protected:
  explicit Fed(std::size_t streams = 1) {
    std::vector<int> ends;
    for (std::size_t i = 0; i < streams; ++i) {
      int pair[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0) ADD_FAILURE() << "socketpair";
      feeders_.emplace_back(pair[0]);
      sockets_.emplace_back(pair[1]);
      ends.push_back(pair[1]);
    }
    receiver_ = std::make_unique<Receiver>(ends);
  }

  void feed(std::size_t stream, const FrameHeader& header, std::string_view payload = {}) {
    HeaderBytes bytes;
    encode(header, bytes);
    ASSERT_EQ(write(feeders_[stream].get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    ASSERT_EQ(write(feeders_[stream].get(), payload.data(), payload.size()),
              static_cast<ssize_t>(payload.size()));
    receiver_->read(stream, SIZE_MAX);
  }
  PostedRequest* post(std::size_t size) {
    buffers_.emplace_back(size);
    PostedRequest* request = pool_.take(buffers_.back().data(), size);
    receiver_->post(request);
    return request;
  }
  static FrameHeader chunk(std::uint64_t sequence, std::uint64_t offset, std::uint32_t length,
                           std::uint64_t total) {
    return {FrameType::kChunk, GoodbyeReason::kClosed, length, sequence, total, offset};
  }

  std::vector<Descriptor> feeders_, sockets_;
  std::unique_ptr<Receiver> receiver_;
  RequestPool pool_{false};
  std::vector<std::vector<std::byte>> buffers_;
};

class FedByTwo : public Fed {
 protected:
  FedByTwo() : Fed(2) {}
};

TEST_F(Fed, HoldsAChunkBackUntilItsReceiveIsPosted) {
  feed(0, chunk(0, 0, 3, 3), "abc");
  EXPECT_FALSE(receiver_->wants_data(0));
  PostedRequest* request = post(3);
  EXPECT_EQ(request->state, PostedRequest::State::kDone);
  EXPECT_TRUE(receiver_->wants_data(0));
}

TEST_F(Fed, RefusesASkippedMessage) {
  post(3);
  post(3);
  feed(0, chunk(1, 0, 3, 3), "abc");
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

TEST_F(FedByTwo, RefusesMoreBytesThanTheMessageHas) {
  post(6);
  feed(0, chunk(0, 0, 4, 6), "abcd");
  feed(1, chunk(0, 2, 4, 6), "cdef");
  EXPECT_EQ(receiver_->fault(), Receiver::Fault::kMalformed);
}

TEST_F(FedByTwo, RandomFramesNeverWriteOutsideTheReceives) {
  auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 3000; ++round) {
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    Descriptor feeder(pair[0]), socket(pair[1]);
    Receiver receiver({socket.get()});
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
      if (random() % 8 == 0) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      wire.insert(wire.end(), bytes.begin(), bytes.end());
      wire.resize(wire.size() + random() % 50, std::byte{0x11});
    }
    ASSERT_EQ(write(feeder.get(), wire.data(), wire.size()), static_cast<ssize_t>(wire.size()));
    receiver.read(0, SIZE_MAX);
  }
}

}  // namespace
}  // namespace tombolo::transport::tcp
