#include "transport/sockets/tls_stream.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <tuple>

#include "base/randomized_test.h"
#include "transport/sockets/tls.h"
#include "transport/tcp/stream/sender.h"
#include "transport/testing/control_channels.h"

namespace tombolo::transport::sockets {
namespace {

std::shared_ptr<Tls> tls_of(std::string_view secret) {
  TlsOptions options;
  options.use = TlsUse::kOn;
  return std::make_shared<Tls>(options, Secret::from_text(secret), "give both the same");
}

/// Two sessions on the two ends of a socket pair.
class TlsStreams : public testing::Test {
 protected:
  void SetUp() override {
    std::tie(sockets_[0], sockets_[1]) = test::local_pair();
    for (std::size_t i = 0; i < 2; ++i) ends_[i] = tls_->begin(sockets_[i].get(), i == 0);
    bool ready[2] = {};
    for (auto deadline = test::soon(); !(ready[0] && ready[1]);) {
      ASSERT_FALSE(deadline.passed());
      for (std::size_t i = 0; i < 2; ++i) ready[i] = ends_[i]->handshake() == Step::kDone;
    }
  }
  std::shared_ptr<Tls> tls_ = tls_of("s");
  Descriptor sockets_[2];
  std::unique_ptr<TlsStream> ends_[2];
};

TEST_F(TlsStreams, KnowTheSameBindingAndCipher) {
  EXPECT_EQ(ends_[0]->binding(), ends_[1]->binding());
  EXPECT_EQ(ends_[0]->cipher(), ends_[1]->cipher());
  const auto first = ends_[0]->binding();
  SetUp();
  EXPECT_NE(ends_[0]->binding(), first);
}

TEST_F(TlsStreams, CarryRandomPiecesBothWaysThroughSmallSocketsAndManyKeys) {
  std::mt19937_64 random(test_seed());
  for (std::size_t i = 0; i < 2; ++i) {
    const int small = 20'000;
    setsockopt(sockets_[i].get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    ends_[i]->set_records_per_key(7);
  }
  constexpr std::size_t kTotal = 3'000'000;
  const std::vector<std::byte> data[2] = {test::random_data(random, kTotal),
                                          test::random_data(random, kTotal)};
  std::vector<std::byte> got[2] = {std::vector<std::byte>(kTotal), std::vector<std::byte>(kTotal)};
  std::size_t sent[2] = {}, received[2] = {};
  bool blocked = false;
  for (auto deadline = test::soon(); received[0] < kTotal || received[1] < kTotal;) {
    ASSERT_FALSE(deadline.passed());
    const std::size_t side = random() % 2;
    std::array<iovec, 5> parts{};
    std::size_t count = 1 + random() % parts.size();
    const auto cut = [&](const std::vector<std::byte>& from, std::size_t at) {
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t length =
            std::min(random() % 3 == 0 ? random() % 200'000 : random() % 100, from.size() - at);
        parts[i] = {const_cast<std::byte*>(from.data()) + at, length};
        at += length;
      }
    };
    if (random() % 2 == 0) {
      cut(data[side], sent[side]);
      const ssize_t written = ends_[side]->write(std::span(parts).first(count));
      if (written > 0) sent[side] += static_cast<std::size_t>(written);
      ASSERT_TRUE(written >= 0 || errno == EAGAIN);
      blocked |= ends_[side]->pending();
    } else {
      cut(got[side], received[side]);
      std::size_t wanted = 0;
      for (std::size_t i = 0; i < count; ++i) wanted += parts[i].iov_len;
      if (wanted == 0) continue;
      const ssize_t read = ends_[side]->read(std::span(parts).first(count));
      ASSERT_NE(read, 0);
      if (read > 0) received[side] += static_cast<std::size_t>(read);
      ASSERT_TRUE(read > 0 || errno == EAGAIN);
      // A short read means that there is no more now.
      ASSERT_TRUE(static_cast<std::size_t>(read) == wanted || !ends_[side]->buffered());
    }
    if (sent[side] == kTotal && ends_[side]->pending()) ends_[side]->flush();
  }
  EXPECT_TRUE(got[0] == data[1]);
  EXPECT_TRUE(got[1] == data[0]);
  EXPECT_TRUE(blocked);
  EXPECT_GT(ends_[0]->key_updates(), 20u);
}

TEST_F(TlsStreams, KeepASendersDoneMessagesOwedUntilTheSocketHasThem) {
  const int small = 20'000;
  setsockopt(sockets_[0].get(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
  tcp::Sender sender({});
  tcp::Stream stream;
  stream.join(std::move(sockets_[0]), std::move(ends_[0]), 0);
  RequestPool pool(true);
  std::vector<std::byte> data(30'000, std::byte{7});
  std::vector<PostedRequest*> requests;
  for (int i = 0; i < 10; ++i) {
    requests.push_back(pool.take(data.data(), data.size()));
    sender.post(requests.back());
  }
  tcp::Sender::Result result;
  for (int i = 0; i < 10 && !result.blocked; ++i) result = sender.flush(stream, SIZE_MAX);
  ASSERT_TRUE(result.blocked);
  ASSERT_TRUE(stream.tls()->pending());
  ASSERT_EQ(requests[0]->state, PostedRequest::State::kDone);
  EXPECT_TRUE(sender.owes(stream, false));
  EXPECT_TRUE(sender.unwritten());
  EXPECT_TRUE(sender.has_work(stream));
  EXPECT_FALSE(sender.takes_more(stream));
  std::vector<std::byte> buffer(400'000);
  std::size_t got = 0;
  const std::size_t wanted = 10 * (data.size() + tcp::kHeaderBytes);
  for (auto deadline = test::soon(); got < wanted;) {
    ASSERT_FALSE(deadline.passed());
    EXPECT_TRUE(sender.owes(stream, false) || !stream.tls()->pending());
    iovec part{buffer.data() + got, buffer.size() - got};
    if (const ssize_t count = ends_[1]->read({&part, 1}); count > 0) got += static_cast<std::size_t>(count);
    sender.flush(stream, SIZE_MAX);
  }
  EXPECT_FALSE(sender.owes(stream, false));
  EXPECT_FALSE(sender.unwritten());
  EXPECT_FALSE(sender.has_work(stream));
}

TEST_F(TlsStreams, SayTheirEndOnceEverythingBeforeWasRead) {
  std::vector<std::byte> data(50'000, std::byte{7}), last(10, std::byte{8}), buffer(60'000);
  iovec part{data.data(), data.size()};
  ASSERT_EQ(ends_[0]->write({&part, 1}), 50'000);
  ends_[0]->close(last);
  sockets_[0].reset();
  part = {buffer.data(), buffer.size()};
  EXPECT_EQ(ends_[1]->read({&part, 1}), 50'010);
  EXPECT_TRUE(ends_[1]->buffered());
  EXPECT_EQ(ends_[1]->read({&part, 1}), 0);
}

TEST_F(TlsStreams, TellAnAlteredRecordAfterWhatCameBefore) {
  std::vector<std::byte> data(1000, std::byte{7}), buffer(3000);
  iovec part{data.data(), data.size()};
  ASSERT_EQ(ends_[0]->write({&part, 1}), 1000);
  const std::byte junk[100] = {std::byte{0x17}, std::byte{3}, std::byte{3}, std::byte{0}, std::byte{95}};
  ASSERT_EQ(send(sockets_[0].get(), junk, sizeof junk, 0), 100);
  part = {buffer.data(), buffer.size()};
  EXPECT_EQ(ends_[1]->read({&part, 1}), 1000);
  EXPECT_TRUE(ends_[1]->buffered());
  EXPECT_EQ(ends_[1]->read({&part, 1}), -1);
  EXPECT_EQ(errno, TlsStream::kAltered);
  EXPECT_EQ(ends_[1]->read({&part, 1}), -1);
}

TEST_F(TlsStreams, WriteNothingMoreOnceTheSocketHasFailedButReadWhatHasCome) {
  std::vector<std::byte> data(50'000, std::byte{7});
  iovec part{data.data(), 1000};
  ASSERT_EQ(ends_[1]->write({&part, 1}), 1000);
  part.iov_len = data.size();
  sockets_[1].reset();
  ends_[1].reset();
  EXPECT_EQ(ends_[0]->write({&part, 1}), -1);
  EXPECT_EQ(errno, EPIPE);
  EXPECT_EQ(ends_[0]->write({&part, 1}), -1);
  EXPECT_EQ(errno, EPIPE);
  ends_[0]->close(std::span(data).first(10));  // says nothing, and does no harm
  EXPECT_EQ(ends_[0]->read({&part, 1}), 1000) << "the peer sent that before";
  EXPECT_EQ(ends_[0]->read({&part, 1}), 0);
}

/// Two sessions that have yet to meet.
struct Strangers {
  Strangers(std::shared_ptr<Tls> left, std::shared_ptr<Tls> right) : tls{std::move(left), std::move(right)} {
    std::tie(sockets[0], sockets[1]) = test::local_pair();
    for (std::size_t i = 0; i < 2; ++i) ends[i] = tls[i]->begin(sockets[i].get(), i == 0);
  }
  /// What each comes to.
  void meet(Step (&steps)[2]) {
    steps[0] = steps[1] = Step::kAgain;
    for (const auto deadline = test::soon(); steps[0] == Step::kAgain || steps[1] == Step::kAgain;) {
      ASSERT_FALSE(deadline.passed());
      for (std::size_t i = 0; i < 2; ++i)
        if (steps[i] == Step::kAgain) steps[i] = ends[i]->handshake();
    }
  }
  std::shared_ptr<Tls> tls[2];
  Descriptor sockets[2];
  std::unique_ptr<TlsStream> ends[2];
};

TEST(TlsStreamHandshake, OfTwoSecretsFailsAtBothEndsWithWhatToDo) {
  Strangers strangers(tls_of("one"), tls_of("another"));
  Step steps[2];
  strangers.meet(steps);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(steps[i], Step::kError);
    EXPECT_TRUE(strangers.ends[i]->settings_differ());
    EXPECT_NE(strangers.ends[i]->trouble().find("give both the same"), std::string::npos)
        << strangers.ends[i]->trouble();
  }
}

TEST(TlsStreamHandshake, APeerThatClosesFirstIsNoDifferenceOfSettings) {
  Strangers strangers(tls_of("one"), tls_of("one"));
  EXPECT_EQ(strangers.ends[0]->handshake(), Step::kAgain);
  strangers.ends[1].reset();
  shutdown(strangers.sockets[1].get(), SHUT_WR);
  EXPECT_EQ(strangers.ends[0]->handshake(), Step::kEnded);
  EXPECT_FALSE(strangers.ends[0]->settings_differ());
}

TEST(TlsStreamHandshake, BytesThatAreNoTlsAreToldFromAnotherSecret) {
  Strangers strangers(tls_of("one"), tls_of("one"));
  EXPECT_EQ(strangers.ends[0]->handshake(), Step::kAgain);
  const std::string_view answer = "HTTP/1.1 400 Bad Request\r\n\r\n";
  ASSERT_EQ(send(strangers.sockets[1].get(), answer.data(), answer.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(answer.size()));
  EXPECT_EQ(strangers.ends[0]->handshake(), Step::kError);
  EXPECT_FALSE(strangers.ends[0]->settings_differ()) << "trying again may help";
  EXPECT_FALSE(strangers.ends[0]->trouble().empty());
}

TEST(TlsStreamHandshake, ASocketsErrorIsNamed) {
  Strangers strangers(tls_of("one"), tls_of("one"));
  strangers.sockets[1].reset();
  EXPECT_EQ(strangers.ends[0]->handshake(), Step::kError);
  EXPECT_NE(strangers.ends[0]->trouble().find("Broken pipe"), std::string::npos)
      << strangers.ends[0]->trouble();
}

}  // namespace
}  // namespace tombolo::transport::sockets
