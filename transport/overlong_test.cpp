// Messages that are larger than their receives, where the receiving end is told to take what fits.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "base/randomized_test.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::test {
namespace {

struct CutCarrier {
  const char* name;
  bool same_host = false;
  shm::Fetch fetch = shm::Fetch::kWhereCheaper;
  TcpOptions tcp = {};
  TlsUse tls = TlsUse::kOff;
};

TcpOptions streams(int count, std::size_t chunk, bool checksums = false) {
  TcpOptions options;
  options.streams = count;
  options.chunk_bytes = chunk;
  options.checksums = checksums;
  return options;
}

class OverlongMessages : public testing::TestWithParam<CutCarrier> {
 protected:
  static Pair connect() {
    const CutCarrier& carrier = GetParam();
    const auto options_of = [&](const std::string& host) {
      RouterOptions options = router_options(carrier.same_host ? "both" : host, carrier.tcp, {carrier.tls});
      options.shm_fetch = carrier.fetch;
      options.overlong = Overlong::kTruncate;
      return options;
    };
    return connect_routers(options_of("left"), options_of("right"));
  }
};

INSTANTIATE_TEST_SUITE_P(
    Backends, OverlongMessages,
    testing::Values(CutCarrier{"Tcp"}, CutCarrier{"TcpChecksums", false, {}, streams(1, 0, true)},
                    CutCarrier{"Tcp4SmallChunks", false, {}, streams(4, 777)},
                    CutCarrier{"Tcp3SmallChunksChecksums", false, {}, streams(3, 5000, true)},
                    CutCarrier{"Tls", false, {}, streams(2, 3000), TlsUse::kOn}, CutCarrier{"Shm", true},
                    CutCarrier{"ShmRingOnly", true, shm::Fetch::kNever},
                    CutCarrier{"ShmReadOnly", true, shm::Fetch::kAlways}),
    [](const auto& tested) { return std::string(tested.param.name); });

// Whatever came before: a receive has the first bytes of its own message, and nothing behind its end is
// written.
TEST_P(OverlongMessages, AreCutToTheirReceivesAndDisturbNoOther) {
  constexpr std::size_t kMessages = 60, kGuard = 64;
  std::mt19937_64 random(test_seed());
  auto [left, right] = connect();
  const auto draw = [&] {
    const std::size_t most = random() % 3 == 0 ? 400'000 : random() % 2 == 0 ? 5000 : 100;
    return static_cast<std::size_t>(random() % (most + 1));
  };
  struct Message {
    std::vector<std::byte> sent, buffer;
    std::size_t room = 0;
    Request *send = nullptr, *receive = nullptr;
  };
  std::deque<Message> messages;
  std::size_t cut = 0;
  for (std::size_t i = 0; i < kMessages; ++i) {
    Message& one = messages.emplace_back();
    one.sent = random_data(random, draw());
    one.room = draw();
    one.buffer.assign(one.room + kGuard, std::byte{0xee});
    cut += one.sent.size() > one.room ? 1 : 0;
  }
  EXPECT_GT(cut, 0u);
  // Receives before their messages, and behind them.
  std::size_t sends = 0, receives = 0;
  const auto post_some = [&, &left = left, &right = right] {
    for (std::size_t end = std::min(kMessages, sends + random() % 5); sends < end; ++sends)
      messages[sends].send = left->post_send(messages[sends].sent);
    for (std::size_t end = std::min(kMessages, receives + random() % 5); receives < end; ++receives)
      messages[receives].receive =
          right->post_receive(std::span(messages[receives].buffer).first(messages[receives].room));
  };
  for (std::size_t done = 0; done < kMessages; ++done) {
    while (sends <= done || receives <= done) {
      post_some();
      left->progress();
      right->progress();
    }
    Message& one = messages[done];
    std::size_t bytes = 0;
    ASSERT_EQ(finish(*right, one.receive, bytes, left.get()), Outcome::kDone)
        << (right->error() != nullptr ? right->error()->what() : "") << ", message " << done;
    ASSERT_EQ(bytes, std::min(one.sent.size(), one.room)) << "message " << done;
    ASSERT_TRUE(std::equal(one.buffer.begin(), one.buffer.begin() + static_cast<std::ptrdiff_t>(bytes),
                           one.sent.begin()))
        << "message " << done;
    ASSERT_TRUE(std::all_of(one.buffer.begin() + static_cast<std::ptrdiff_t>(bytes), one.buffer.end(),
                            [](std::byte byte) { return byte == std::byte{0xee}; }))
        << "message " << done;
    ASSERT_EQ(finish(*left, one.send, bytes, right.get()), Outcome::kDone);
    ASSERT_EQ(bytes, one.sent.size()) << "the sender knows nothing of it";
  }
}

}  // namespace
}  // namespace tombolo::transport::test
