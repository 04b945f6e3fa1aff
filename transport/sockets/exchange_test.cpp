#include "transport/sockets/exchange.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <random>
#include <tuple>

#include "base/randomized_test.h"
#include "transport/descriptor.h"
#include "transport/testing/control_channels.h"

namespace tombolo::transport::sockets {
namespace {

/// Two ends of a local stream that do not block.
class Exchange : public testing::Test {
 protected:
  Exchange() { std::tie(near_, far_) = test::local_pair(); }
  void say(std::span<const std::byte> bytes) {
    ASSERT_EQ(send(near_.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  Descriptor near_, far_;
};

TEST_F(Exchange, AMessageMayComeInAnyPieces) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 50; ++round) {
    const auto message = test::random_data(random, 1 + random() % 300);
    MessageReader reader;
    for (std::size_t at = 0; at < message.size();) {
      ASSERT_EQ(reader.read(far_.get(), message.size()), Step::kAgain);
      ASSERT_EQ(reader.bytes().size(), at) << "what came is kept, and only that";
      const std::size_t size = std::min<std::size_t>(1 + random() % 100, message.size() - at);
      say(std::span(message).subspan(at, size));
      at += size;
    }
    ASSERT_EQ(reader.read(far_.get(), message.size()), Step::kDone);
    ASSERT_TRUE(std::equal(message.begin(), message.end(), reader.bytes().begin(), reader.bytes().end()));
  }
}

TEST_F(Exchange, NothingIsReadBeyondTheMessage) {
  say(std::vector<std::byte>(10, std::byte{1}));
  MessageReader reader;
  ASSERT_EQ(reader.read(far_.get(), 4), Step::kDone);
  ASSERT_EQ(reader.read(far_.get(), 7), Step::kDone) << "a longer one, once its beginning says so";
  EXPECT_EQ(reader.bytes().size(), 7u);
  std::array<std::byte, 10> rest;
  EXPECT_EQ(recv(far_.get(), rest.data(), rest.size(), 0), 3);
  reader.clear();
  EXPECT_EQ(reader.read(far_.get(), 0), Step::kDone);
  EXPECT_TRUE(reader.bytes().empty());
}

TEST_F(Exchange, AnEndInTheMiddleIsToldAndWhatCameIsKept) {
  say(std::vector<std::byte>(3, std::byte{1}));
  near_.reset();
  MessageReader reader;
  EXPECT_EQ(reader.read(far_.get(), 8), Step::kEnded);
  EXPECT_EQ(reader.bytes().size(), 3u);
  EXPECT_EQ(reader.read(far_.get(), 3), Step::kDone);
}

TEST_F(Exchange, ASocketsErrorIsToldByItsNumber) {
  MessageReader reader;
  EXPECT_EQ(reader.read(StreamIo(-1), 8), Step::kError);
  EXPECT_EQ(reader.error(), EBADF);
  EXPECT_TRUE(reader.bytes().empty());
  MessageWriter writer;
  writer.set(std::vector<std::byte>(8));
  far_.reset();
  EXPECT_EQ(writer.write(near_.get()), Step::kError);
  EXPECT_EQ(writer.error(), EPIPE);
}

TEST_F(Exchange, AMessageGoesOutAsTheSocketTakesIt) {
  const int small = 5000;
  setsockopt(near_.get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  std::mt19937_64 random(test_seed());
  const auto message = test::random_data(random, 300'000);
  MessageWriter writer;
  writer.set(message);
  MessageReader reader;
  bool blocked = false;
  Step wrote = Step::kAgain, read = Step::kAgain;
  for (const auto deadline = test::soon(); read != Step::kDone;) {
    ASSERT_FALSE(deadline.passed());
    wrote = writer.write(near_.get());
    ASSERT_TRUE(wrote == Step::kDone || wrote == Step::kAgain);
    blocked |= wrote == Step::kAgain;
    read = reader.read(far_.get(), message.size());
    ASSERT_TRUE(read == Step::kDone || read == Step::kAgain);
  }
  EXPECT_TRUE(blocked);
  EXPECT_EQ(wrote, Step::kDone);
  EXPECT_TRUE(std::equal(message.begin(), message.end(), reader.bytes().begin()));
  // What has been written is not written again.
  EXPECT_EQ(writer.write(near_.get()), Step::kDone);
  EXPECT_EQ(reader.read(far_.get(), message.size() + 1), Step::kAgain);
}

}  // namespace
}  // namespace tombolo::transport::sockets
