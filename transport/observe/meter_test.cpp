// Counters that one thread writes and others read, what connections of every transport count, and sums that
// never go backwards.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/randomized_test.h"
#include "transport/observe/meters.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport {
namespace {

using std::chrono::milliseconds;

MeterSubject subject(const std::string& nic, const std::string& peer) {
  MeterSubject one;
  one.route.transport = "tcp";
  one.route.local_nic = nic;
  one.route.peer_nic = "eth9";
  one.route.peer_host = peer;
  return one;
}

test::Pair metered_pair(const test::TestedBackend& backend, const std::shared_ptr<Meters>& meters) {
  if (backend.memory) return memory::make_pair(7, meters);
  auto options_of = [&](const std::string& host) {
    RouterOptions options =
        test::router_options(backend.shm == test::TestedBackend::Shm::kNo ? host : "both", backend.tcp);
    options.shm_fetch =
        backend.shm == test::TestedBackend::Shm::kRing ? shm::Fetch::kNever : shm::Fetch::kAlways;
    options.meters = meters;
    return options;
  };
  Router left(options_of("left")), right(options_of("right"));
  auto listener = right.listen();
  ConnectOptions connect;
  connect.label = 7;
  connect.peer_name = "rank 1";
  return test::connect_pair(left, *listener, connect);
}

TcpOptions tcp_streams(int count) {
  TcpOptions options;
  options.streams = count;
  options.chunk_bytes = 10'000;
  return options;
}

class MetersOfEveryTransport : public testing::TestWithParam<test::TestedBackend> {};

INSTANTIATE_TEST_SUITE_P(
    All, MetersOfEveryTransport,
    testing::Values(test::TestedBackend{"memory", true, {}},
                    test::TestedBackend{"tcp_1_stream", false, tcp_streams(1)},
                    test::TestedBackend{"tcp_4_streams", false, tcp_streams(4)},
                    test::TestedBackend{"shm_fetch", false, {}, test::TestedBackend::Shm::kFetch},
                    test::TestedBackend{"shm_ring", false, {}, test::TestedBackend::Shm::kRing}),
    [](const auto& backend) { return backend.param.name; });

TEST_P(MetersOfEveryTransport, CountWhatIsMovedAndKeepItAfterTheConnectionIsGone) {
  auto meters = std::make_shared<Meters>();
  {
    auto [left, right] = metered_pair(GetParam(), meters);
    std::mt19937_64 random(test_seed(1));
    std::uint64_t sent = 0;
    for (std::size_t size : {0u, 1u, 9'999u, 300'000u, 64u}) {
      auto data = test::random_data(random, size);
      std::vector<std::byte> got(size);
      Request* receive = right->post_receive(got);
      Request* send = left->post_send(data);
      std::size_t bytes = 0;
      ASSERT_EQ(test::finish(*right, receive, bytes, left.get()), Outcome::kDone);
      ASSERT_EQ(test::finish(*left, send, bytes, right.get()), Outcome::kDone);
      ASSERT_EQ(got, data);
      sent += size;
    }
    const MetersReading reading = meters->read();
    ASSERT_EQ(reading.connections.size(), 2u);
    EXPECT_NE(reading.connections[0].id, reading.connections[1].id);
    std::uint64_t out = 0, in = 0, out_messages = 0, stream_out = 0, stream_in = 0, chunks_out = 0,
                  chunks_in = 0;
    for (const ConnectionReading& one : reading.connections) {
      EXPECT_EQ(one.subject.label, 7u);
      EXPECT_EQ(one.subject.route.transport, left->route().transport);
      EXPECT_EQ(one.streams.size(), static_cast<std::size_t>(GetParam().tcp.streams));
      EXPECT_EQ(one.statistics.live_streams, one.streams.size());
      out += one.statistics.bytes_sent;
      in += one.statistics.bytes_received;
      out_messages += one.statistics.messages_sent;
      for (const StreamReading& stream : one.streams) {
        EXPECT_TRUE(stream.up);
        stream_out += stream.sent_bytes;
        stream_in += stream.received_bytes;
        chunks_out += stream.sent_chunks;
        chunks_in += stream.received_chunks;
      }
    }
    EXPECT_EQ(out, sent);
    EXPECT_EQ(in, sent);
    EXPECT_EQ(out_messages, 5u);
    EXPECT_EQ(left->statistics().bytes_sent, sent);
    EXPECT_EQ(right->statistics().messages_received, 5u);
    if (GetParam().tcp.streams > 0) {
      EXPECT_GT(stream_out, sent);  // headers too
      EXPECT_GE(stream_out, stream_in);
      // Cut at 10,000 bytes.
      EXPECT_EQ(chunks_out, 1u + 1u + 1u + 30u + 1u);
      EXPECT_EQ(chunks_in, chunks_out);
    }
  }
  const MetersReading after = meters->read();
  EXPECT_TRUE(after.connections.empty());
  std::uint64_t sent = 0, received = 0, opened = 0, live = 0;
  for (const auto& [key, totals] : after.totals) {
    sent += totals.sent_bytes;
    received += totals.received_bytes;
    opened += totals.connections;
    live += totals.live;
  }
  EXPECT_EQ(sent, 310'064u);
  EXPECT_EQ(received, 310'064u);
  EXPECT_EQ(opened, 2u);
  EXPECT_EQ(live, 0u);
}

TEST_P(MetersOfEveryTransport, AreReadByOtherThreadsWhileConnectionsMoveBytesComeAndGo) {
  auto meters = std::make_shared<Meters>();
  std::atomic<bool> stop{false};
  std::uint64_t last = 0;
  bool backwards = false;
  std::thread reader([&] {
    while (!stop) {
      std::uint64_t sum = 0;
      for (const auto& [key, totals] : meters->read().totals) sum += totals.sent_bytes;
      backwards |= sum < last;
      last = sum;
      std::this_thread::yield();
    }
  });
  std::vector<std::byte> data(5000), got(5000);
  for (int connection = 0; connection < 5; ++connection) {
    auto [left, right] = metered_pair(GetParam(), meters);
    for (int i = 0; i < 50; ++i) {
      Request* receive = right->post_receive(got);
      Request* send = left->post_send(data);
      std::size_t bytes = 0;
      ASSERT_EQ(test::finish(*right, receive, bytes, left.get()), Outcome::kDone);
      ASSERT_EQ(test::finish(*left, send, bytes, right.get()), Outcome::kDone);
    }
  }
  stop = true;
  reader.join();
  EXPECT_FALSE(backwards);
  std::uint64_t sum = 0;
  for (const auto& [key, totals] : meters->read().totals) sum += totals.sent_bytes;
  EXPECT_EQ(sum, 5u * 50u * 5000u);
}

TEST(StallWatch, CountsOnceWhatLastsLongerThanATenthOfASecondAndAllOfItsTime) {
  FakeClock clock;
  ConnectionMeter meter(1, {});
  StallWatch stalls;
  EXPECT_FALSE(stalls.quiet(meter, clock.now(), true, true));
  clock.advance(milliseconds(99));
  EXPECT_FALSE(stalls.quiet(meter, clock.now(), true, true));
  stalls.moved(meter, clock);
  EXPECT_EQ(meter.send_stalls.get(), 0u);

  EXPECT_FALSE(stalls.quiet(meter, clock.now(), true, false));
  clock.advance(milliseconds(150));
  EXPECT_TRUE(stalls.quiet(meter, clock.now(), true, false));
  clock.advance(milliseconds(50));
  EXPECT_FALSE(stalls.quiet(meter, clock.now(), true, false));
  clock.advance(milliseconds(25));
  stalls.moved(meter, clock);
  clock.advance(milliseconds(500));
  stalls.moved(meter, clock);
  EXPECT_EQ(meter.send_stalls.get(), 1u);
  EXPECT_EQ(meter.send_stalled_ns.get(), 225'000'000u);

  // A thread that slept through the stall: nobody looked before something moved again.
  stalls.quiet(meter, clock.now(), false, true);
  clock.advance(milliseconds(300));
  stalls.moved(meter, clock);
  EXPECT_EQ(meter.receive_stalls.get(), 1u);
  EXPECT_EQ(meter.statistics().receive_stalled, milliseconds(300));
  EXPECT_EQ(meter.send_stalls.get(), 1u);
}

TEST(StallWatch, HasNothingToCountWhileNothingIsPending) {
  FakeClock clock;
  ConnectionMeter meter(1, {});
  StallWatch stalls;
  stalls.quiet(meter, clock.now(), false, false);
  clock.advance(std::chrono::seconds(10));
  stalls.quiet(meter, clock.now(), false, false);
  stalls.moved(meter, clock);
  EXPECT_EQ(meter.receive_stalls.get() + meter.send_stalls.get(), 0u);
}

TEST(StreamMeter, SumsTheRetransmissionsOfAllItsSockets) {
  StreamMeter meter;
  meter.set_retransmitted(3);
  meter.set_retransmitted(5);
  meter.broke();
  EXPECT_EQ(meter.down.get(), 1u);
  meter.rejoined();
  meter.set_retransmitted(0);
  EXPECT_EQ(meter.retransmitted(), 5u);
  meter.set_retransmitted(2);
  EXPECT_EQ(meter.retransmitted(), 7u);
  EXPECT_EQ(meter.breaks.get(), 1u);
  EXPECT_EQ(meter.rejoins.get(), 1u);
}

TEST(Meters, SumUpStreamsByTheirOwnNics) {
  auto meters = std::make_shared<Meters>();
  Metering one(meters, subject("eth0", "b0"));
  StreamMeter& first = one->add_stream("eth0", "eth9");
  StreamMeter& second = one->add_stream("eth1", "eth8");
  one->sent_bytes.add(100);
  first.sent_bytes.add(40);
  second.sent_bytes.add(60);
  second.broke();
  auto totals = meters->read().totals;
  const TotalsKey first_key{"tcp", "eth0", "eth9", "b0"};
  const TotalsKey second_key{"tcp", "eth1", "eth8", "b0"};
  ASSERT_EQ(totals.size(), 2u);
  EXPECT_EQ(totals[first_key].sent_bytes, 100u);
  EXPECT_EQ(totals[first_key].stream_sent_bytes, 40u);
  EXPECT_EQ(totals[first_key].live_streams, 1u);
  EXPECT_EQ(totals[second_key].sent_bytes, 0u);
  EXPECT_EQ(totals[second_key].stream_sent_bytes, 60u);
  EXPECT_EQ(totals[second_key].live_streams, 0u);
  EXPECT_EQ(totals[second_key].breaks, 1u);
}

TEST(Meters, KeepABoundedNumberOfSums) {
  auto meters = std::make_shared<Meters>();
  constexpr std::size_t kPeers = Meters::kMostKeys + 100;
  for (std::size_t i = 0; i < kPeers; ++i) {
    Metering one(meters, subject("eth0", fmt::format("host{}", i)));
    one->sent_bytes.add(1);
  }
  const auto totals = meters->read().totals;
  EXPECT_EQ(totals.size(), Meters::kMostKeys + 1);
  const TotalsKey other{"tcp", "eth0", "other", "other"};
  ASSERT_TRUE(totals.contains(other));
  EXPECT_EQ(totals.at(other).sent_bytes, 100u);
}

}  // namespace
}  // namespace tombolo::transport
