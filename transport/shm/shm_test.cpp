// What shared memory adds to the contract that testing/conformance.h checks.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <deque>
#include <fstream>
#include <thread>

#include "base/randomized_test.h"
#include "transport/shm/connection.h"
#include "transport/shm/ring.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::shm {
namespace {

using Shm = test::TestedBackend::Shm;

test::Pair connected(Shm way) {
  return test::make_connected({"Shm", false, {}, way});
}

class Ways : public testing::TestWithParam<Shm> {};

TEST_P(Ways, TheRouteSaysSo) {
  auto pair = connected(GetParam());
  EXPECT_EQ(pair.first->route().transport, "shm");
  EXPECT_EQ(pair.second->route().transport, "shm");
}

TEST_P(Ways, RandomMessagesBothWaysArriveWholeBetweenSleepingThreads) {
  test::expect_random_messages_both_ways(connected(GetParam()), 600, 5'000, 300'000);
}

TEST_P(Ways, ManySmallMessagesPassAFullRing) {
  auto pair = connected(GetParam());
  constexpr std::size_t kMessages = 50'000;
  std::thread reader([&] {
    for (std::size_t i = 0; i < kMessages; ++i) {
      std::uint64_t got = 0;
      std::size_t bytes = 0;
      Request* receive = pair.second->post_receive(std::as_writable_bytes(std::span(&got, 1)));
      ASSERT_EQ(test::finish_asleep(*pair.second, receive, bytes), Outcome::kDone);
      ASSERT_EQ(got, i);
    }
  });
  for (std::size_t i = 0; i < kMessages; ++i) {
    std::size_t bytes = 0;
    Request* send = pair.first->post_send(std::as_bytes(std::span(&i, 1)));
    ASSERT_EQ(test::finish_asleep(*pair.first, send, bytes), Outcome::kDone);
  }
  reader.join();
}

// It saw room for records that lie beside the ring, and was awake until the peer took some.
TEST_P(Ways, ASenderSleepsWhileTheRingIsFullOfMessagesThatLieInIt) {
  auto pair = connected(GetParam());
  const std::vector<std::byte> data(kLongestInRing - 100);
  std::size_t bytes = 0;
  Request* send = nullptr;
  do {
    send = pair.first->post_send(data);
    ASSERT_NE(send, nullptr);
  } while (pair.first->test(send, bytes) == Outcome::kDone);
  std::vector<pollfd> handles;
  pair.first->append_wait_handles(handles);
  ASSERT_EQ(::poll(handles.data(), handles.size(), 0), 0);
  std::vector<std::byte> got(data.size());
  for (int taken = 0; ::poll(handles.data(), handles.size(), 0) == 0; ++taken) {
    ASSERT_LT(taken, 20) << "it is not woken";
    ASSERT_EQ(test::finish(*pair.second, pair.second->post_receive(got), bytes), Outcome::kDone);
  }
  EXPECT_EQ(test::finish(*pair.first, send, bytes), Outcome::kDone);
}

TEST_P(Ways, WhatWasReportedAsSentArrivesAfterTheSenderClosed) {
  auto pair = connected(GetParam());
  std::vector<std::byte> small(1000, std::byte{7});
  std::size_t bytes = 0;
  ASSERT_EQ(test::finish(*pair.first, pair.first->post_send(small), bytes), Outcome::kDone);
  pair.first.reset();
  std::vector<std::byte> in(1000);
  ASSERT_EQ(test::finish(*pair.second, pair.second->post_receive(in), bytes), Outcome::kDone);
  EXPECT_EQ(in, small);
  ASSERT_EQ(test::finish(*pair.second, pair.second->post_receive(in), bytes), Outcome::kFailed);
  EXPECT_NE(std::string(pair.second->error()->what()).find("closed the connection"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Shm, Ways, testing::Values(Shm::kFetch, Shm::kRing, Shm::kRead),
                         [](const auto& tested) {
                           return tested.param == Shm::kFetch  ? "Fetch"
                                  : tested.param == Shm::kRing ? "Ring"
                                                               : "Read";
                         });

TEST_P(Ways, ASendThatThePeerReceivedIsDoneEvenIfThePeerClosesAtOnce) {
  for (int round = 0; round < 200; ++round) {
    auto pair = connected(GetParam());
    std::vector<std::byte> data(40'000), got(40'000);
    std::thread peer([&] {
      std::size_t bytes = 0;
      EXPECT_EQ(test::finish(*pair.second, pair.second->post_receive(got), bytes), Outcome::kDone);
      pair.second.reset();
    });
    Request* send = pair.first->post_send(data);
    std::size_t bytes = 0;
    EXPECT_EQ(test::finish(*pair.first, send, bytes), Outcome::kDone) << "round " << round;
    peer.join();
  }
}

/// The peer's process of a test, with the connecting end of a connection. It ends with exit code 0 where
/// `run` returns true.
template <typename Run>
pid_t fork_peer(const Endpoint& endpoint, Fetch fetch, Run run) {
  const auto encoded = endpoint.encode();
  const pid_t child = ::fork();
  if (child != 0) return child;
  RouterOptions options = test::router_options("one");
  options.shm_fetch = fetch;
  Router there(options);
  auto connecting = there.connect(Endpoint::decode(encoded), {});
  std::unique_ptr<Connection> connection;
  while (!connection) connection = connecting->poll();
  ::_exit(run(*connection) ? 0 : 1);
}

std::unique_ptr<Connection> accepted(Listener& listener) {
  std::unique_ptr<Connection> connection;
  for (auto deadline = test::soon(); !connection && !deadline.passed();) connection = listener.accept();
  EXPECT_NE(connection, nullptr);
  return connection;
}

void wait_until_stopped(pid_t child) {
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status)) << status;
}

// Both ends in one process, so that their turns can be told apart.
TEST(ShmFetch, WhatWasLeftToBeReadIsReadWithoutTheSender) {
  auto pair = connected(Shm::kRead);
  std::mt19937_64 random(test_seed(5));
  // As much as may wait to be fetched.
  const auto data = test::random_data(random, (kMostToFetch - 1) * kFetchPart + 50'000);
  std::vector<std::byte> got(data.size() + 3, std::byte{9});
  Request* send = pair.first->post_send(data);
  std::size_t bytes = 0;
  Request* receive = pair.second->post_receive(got);
  ASSERT_EQ(test::finish(*pair.second, receive, bytes), Outcome::kDone);
  EXPECT_EQ(bytes, data.size());
  ASSERT_EQ(pair.first->test(send, bytes), Outcome::kDone);
  EXPECT_TRUE(std::equal(data.begin(), data.end(), got.begin()));
  EXPECT_EQ(got.back(), std::byte{9});
}

TEST(ShmFetch, MorePartsThanMayWaitAreLeftOnceSomeWereRead) {
  auto pair = connected(Shm::kRead);
  std::mt19937_64 random(test_seed(7));
  const auto data = test::random_data(random, (kMostToFetch + 1) * kFetchPart);
  std::vector<std::byte> got(data.size());
  Request* send = pair.first->post_send(data);
  std::size_t bytes = 0;
  Request* receive = pair.second->post_receive(got);
  while (pair.second->progress()) {
  }
  ASSERT_EQ(pair.second->test(receive, bytes), Outcome::kPending) << "the rest was not left yet";
  EXPECT_EQ(test::finish(*pair.first, send, bytes, pair.second.get()), Outcome::kDone);
  EXPECT_EQ(test::finish(*pair.second, receive, bytes), Outcome::kDone);
  EXPECT_TRUE(got == data);
}

TEST_P(Ways, SmallMessagesBetweenLargeOnesKeepTheirPlaces) {
  auto pair = connected(GetParam());
  std::mt19937_64 random(test_seed(6));
  std::vector<std::vector<std::byte>> sent, got;
  std::vector<Request*> sends;
  for (const std::size_t size : {std::size_t{300'000}, std::size_t{10}, std::size_t{40'000}, std::size_t{0},
                                 std::size_t{900'000}, std::size_t{5}})
    sent.push_back(test::random_data(random, size));
  for (const auto& message : sent) sends.push_back(pair.first->post_send(message));
  std::size_t bytes = 0;
  for (const auto& message : sent) {
    auto& in = got.emplace_back(message.size());
    ASSERT_EQ(test::finish(*pair.second, pair.second->post_receive(in), bytes, pair.first.get()),
              Outcome::kDone);
    ASSERT_EQ(bytes, message.size());
  }
  EXPECT_TRUE(got == sent);
  for (Request* send : sends) EXPECT_EQ(test::finish(*pair.first, send, bytes), Outcome::kDone);
}

TEST(ShmFetch, ASenderThatClosedIsNotReadAnyMore) {
  auto pair = connected(Shm::kRead);
  std::vector<std::byte> data(4 * kFetchPart, std::byte{1}), got(data.size());
  pair.first->post_send(data);
  pair.first.reset();
  std::ranges::fill(data, std::byte{2});
  std::size_t bytes = 0;
  EXPECT_EQ(test::finish(*pair.second, pair.second->post_receive(got), bytes), Outcome::kFailed);
  EXPECT_NE(test::why_failed(*pair.second).find("closed the connection"), std::string::npos)
      << test::why_failed(*pair.second);
}

// A peer that is stopped has no part of a message in its hands.
TEST(ShmFetch, AStoppedSendersMessageArrives) {
  Router here(test::router_options("one"));
  auto listener = here.listen();
  const pid_t child = fork_peer(listener->endpoint(), Fetch::kAlways, [](Connection& connection) {
    std::vector<std::byte> data(8 * kFetchPart, std::byte{1});
    Request* send = connection.post_send(data);
    ::raise(SIGSTOP);
    std::size_t bytes = 0;
    return test::finish(connection, send, bytes) == Outcome::kDone;
  });
  auto connection = accepted(*listener);
  ASSERT_NE(connection, nullptr);
  wait_until_stopped(child);
  std::vector<std::byte> got(8 * kFetchPart);
  std::size_t bytes = 0;
  EXPECT_EQ(test::finish(*connection, connection->post_receive(got), bytes), Outcome::kDone);
  EXPECT_EQ(std::ranges::count(got, std::byte{1}), std::ssize(got));
  int status = 0;
  ASSERT_EQ(::kill(child, SIGCONT), 0);
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Wherever in a message its sender is stopped, the receive is its owner's once the connection is gone.
TEST(ShmFetch, ASenderThatGoesOnWritesNothingToAReceiveThatWasGivenUp) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < test_rounds(5); ++round) {
    Router here(test::router_options("one"));
    auto listener = here.listen();
    const Fetch fetch = round % 2 == 0 ? Fetch::kWhereCheaper : Fetch::kAlways;
    const pid_t child = fork_peer(listener->endpoint(), fetch, [](Connection& connection) {
      std::vector<std::byte> data(64 * kFetchPart, std::byte{1});
      std::size_t bytes = 0;
      Outcome outcome = Outcome::kDone;
      while (outcome == Outcome::kDone) outcome = test::finish(connection, connection.post_send(data), bytes);
      return outcome == Outcome::kFailed;
    });
    auto connection = accepted(*listener);
    ASSERT_NE(connection, nullptr);
    std::vector<std::byte> got(64 * kFetchPart);
    std::size_t bytes = 0;
    Request* receive = connection->post_receive(got);
    for (std::uint64_t turns = random() % 50; got[0] == std::byte{0} || turns > 0;
         turns -= turns > 0 ? 1 : 0) {
      if (connection->test(receive, bytes) != Outcome::kPending) receive = connection->post_receive(got);
    }
    ASSERT_EQ(::kill(child, SIGSTOP), 0);
    wait_until_stopped(child);
    connection.reset();
    std::ranges::fill(got, std::byte{2});
    int status = 0;
    ASSERT_EQ(::kill(child, SIGCONT), 0);
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "its send fails";
    EXPECT_EQ(std::ranges::count(got, std::byte{2}), std::ssize(got)) << "round " << round;
  }
}

TEST_P(Ways, LargeMessagesBothWaysArriveWholeBetweenThreads) {
  const unsigned seed = test_seed();
  auto pair = connected(GetParam());
  auto run = [](Connection& connection, std::uint64_t send_seed, std::uint64_t receive_seed) {
    std::mt19937_64 out(send_seed), in(receive_seed);
    for (int round = 0; round < test_rounds(12); ++round) {
      constexpr int kAtOnce = 3;
      std::vector<std::vector<std::byte>> sent, wanted, got;
      std::vector<Request*> sends, receives;
      for (int i = 0; i < kAtOnce; ++i) {
        sent.push_back(test::random_data(out, out() % 5'000'000));
        wanted.push_back(test::random_data(in, in() % 5'000'000));
        got.emplace_back(wanted.back().size());
      }
      for (int i = 0; i < kAtOnce; ++i) {
        receives.push_back(connection.post_receive(got[static_cast<std::size_t>(i)]));
        sends.push_back(connection.post_send(sent[static_cast<std::size_t>(i)]));
      }
      std::size_t bytes = 0;
      for (Request* request : sends) ASSERT_EQ(test::finish(connection, request, bytes), Outcome::kDone);
      for (Request* request : receives) ASSERT_EQ(test::finish(connection, request, bytes), Outcome::kDone);
      ASSERT_TRUE(got == wanted) << "round " << round;
    }
  };
  std::thread other([&] { run(*pair.second, seed + 1, seed); });
  run(*pair.first, seed, seed + 1);
  other.join();
}

TEST(ShmFetch, NothingIsWrittenToAReceiveOnceItsConnectionIsGone) {
  for (int round = 0; round < test_rounds(10); ++round) {
    auto pair = connected(round % 2 == 0 ? Shm::kFetch : Shm::kRead);
    std::vector<std::byte> data(std::size_t{16} << 20, std::byte{1}), got(data.size());
    std::thread receiver([&] {
      std::size_t bytes = 0;
      Request* receive = pair.second->post_receive(got);
      // Until a turn was made, and some more.
      for (int turn = 0; turn < 1 + round % 5; ++turn) {
        if (pair.second->test(receive, bytes) != Outcome::kPending) break;
        if (got[0] == std::byte{0}) turn = -1;
      }
      pair.second.reset();
      std::ranges::fill(got, std::byte{2});
      for (int look = 0; look < 20; ++look) {
        // Every byte is like the one before it.
        ASSERT_TRUE(got[0] == std::byte{2} && std::memcmp(&got[0], &got[1], got.size() - 1) == 0)
            << "round " << round;
      }
    });
    Request* send = pair.first->post_send(data);
    std::size_t bytes = 0;
    const Outcome outcome = test::finish(*pair.first, send, bytes);
    EXPECT_NE(outcome, Outcome::kPending);
    receiver.join();
  }
}

TEST(ShmFailure, AKilledPeerFailsALargeMessageByName) {
  Router here(test::router_options("one"));
  auto listener = here.listen();
  const auto endpoint = listener->endpoint().encode();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Router there(test::router_options("one"));
    auto connecting = there.connect(Endpoint::decode(endpoint), {});
    std::unique_ptr<Connection> connection;
    while (!connection) connection = connecting->poll();
    std::vector<std::byte> large(std::size_t{64} << 20, std::byte{1});
    connection->post_send(large);
    ::raise(SIGKILL);
  }
  std::unique_ptr<Connection> connection;
  for (auto deadline = test::soon(); !connection && !deadline.passed();) connection = listener->accept();
  ASSERT_NE(connection, nullptr);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  std::vector<std::byte> in(std::size_t{64} << 20);
  std::size_t bytes = 0;
  ASSERT_EQ(test::finish_asleep(*connection, connection->post_receive(in), bytes), Outcome::kFailed);
  EXPECT_EQ(connection->error()->cause(), Cause::kRemote);
  EXPECT_NE(std::string(connection->error()->what()).find("vanished"), std::string::npos)
      << connection->error()->what();
}

TEST(ShmFailure, APeerThatCannotIsReachedOverTcpAndTheRouteSaysWhy) {
  RouterOptions only_tcp = test::router_options("one");
  only_tcp.policy.transports = {"tcp"};
  Router here(test::router_options("one")), there(only_tcp);
  auto listener = there.listen();
  Endpoint claimed = listener->endpoint();
  EXPECT_FALSE(claimed.can(Carrier::kShm));
  claimed.carriers |= 1U << static_cast<int>(Carrier::kShm);  // it says more than it can do
  auto connecting = here.connect(claimed, {});
  std::unique_ptr<Connection> mine, theirs;
  for (auto deadline = test::soon(); !(mine && theirs) && !deadline.passed();) {
    if (!mine) mine = connecting->poll();
    if (!theirs) theirs = listener->accept();
  }
  ASSERT_TRUE(mine && theirs);
  EXPECT_EQ(mine->route().transport, "tcp");
  EXPECT_NE(mine->route().reason.find("shm was tried first"), std::string::npos) << mine->route().reason;
  EXPECT_NE(mine->route().reason.find("the peer cannot use shm"), std::string::npos) << mine->route().reason;
}

TEST(ShmFetch, MemoryThatTheKernelDoesNotLetOthersReadIsToldFromOrdinaryMemory) {
  std::vector<std::byte> ordinary(100'000);
  EXPECT_TRUE(fetchable(ordinary));
  // The kernel's own page in every process is mapped as a driver's memory is.
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("[vvar]") == std::string::npos) continue;
    const auto* page = reinterpret_cast<const std::byte*>(std::stoull(line, nullptr, 16));
    EXPECT_FALSE(fetchable({page, 64}));
    return;
  }
  GTEST_SKIP() << "this kernel shows no [vvar]";
}

TEST(ShmRing, RecordsOfEverySizeGoThroughManyLapsInOrder) {
  std::mt19937_64 random(test_seed());
  auto ring = std::make_unique<Ring>();
  RingWriter writer(*ring);
  RingReader reader(*ring);
  std::deque<std::vector<std::byte>> waiting;
  for (int step = 0; step < test_rounds(20'000); ++step) {
    if (random() % 2 == 0) {
      auto payload =
          test::random_data(random, random() % 5 == 0 ? random() % kLongestRecord : random() % 200);
      if (writer.write({0, RecordType::kWhole, 0, payload.size(), payload.size(), 0}, payload.data()))
        waiting.push_back(std::move(payload));
    } else if (auto record = reader.peek()) {
      ASSERT_FALSE(waiting.empty());
      ASSERT_EQ(record->length, waiting.front().size());
      ASSERT_TRUE(std::equal(waiting.front().begin(), waiting.front().end(), reader.payload(*record)));
      reader.pop(*record);
      waiting.pop_front();
    } else {
      ASSERT_TRUE(waiting.empty());
    }
  }
}

TEST(ShmRing, WhatAnEarlierLapLeftIsNoRecord) {
  std::mt19937_64 random(test_seed());
  auto ring = std::make_unique<Ring>();
  RingWriter writer(*ring);
  RingReader reader(*ring);
  std::uint64_t position = 0;
  for (int step = 0; step < test_rounds(20'000); ++step) {
    const std::size_t length = random() % 3 == 0 ? 8 : random() % (16 * kLine);
    const std::size_t to_end = kRingBytes - position % kRingBytes;
    if (record_bytes(length) > to_end) position += to_end;
    // Every line bears what would make it a record one lap later.
    std::vector<std::byte> payload(length);
    for (std::size_t at = kPayloadOfFirstLine; at + sizeof(std::uint32_t) <= length; at += kLine) {
      const std::uint32_t stamp = stamp_at(position + sizeof(Record) + at + kRingBytes);
      std::memcpy(&payload[at], &stamp, sizeof stamp);
    }
    ASSERT_TRUE(writer.write({0, RecordType::kWhole, 0, length, length, 0}, payload.data()));
    position += record_bytes(length);
    const auto record = reader.peek();
    ASSERT_TRUE(record);
    ASSERT_EQ(record->length, length);
    reader.pop(*record);
    ASSERT_FALSE(reader.peek()) << "at " << position;
  }
}

TEST(ShmRing, ALengthThatNoRecordHasIsNotBelieved) {
  for (const std::uint64_t length : {std::uint64_t{1} << 60, std::uint64_t{kAreaBytes}, kNoLength}) {
    auto ring = std::make_unique<Ring>();
    const Record evil{stamp_at(0), RecordType::kWhole, 0, length, 8, 0};
    std::memcpy(ring->bytes, &evil, sizeof evil);
    EXPECT_EQ(RingReader(*ring).peek()->length, kNoLength) << length;
  }
}

TEST(ShmRing, ALengthThatReachesBeyondTheRingIsNotBelieved) {
  auto ring = std::make_unique<Ring>();
  RingReader reader(*ring);
  std::uint64_t position = 0;
  const auto put = [&](std::uint64_t length) {
    const Record record{stamp_at(position), RecordType::kWhole, 0, length, length, 0};
    std::memcpy(ring->bytes + position, &record, sizeof record);
    return reader.peek();
  };
  while (kRingBytes - position > record_bytes(kLongestInRing)) {
    const auto record = put(kLongestInRing);
    ASSERT_EQ(record->length, kLongestInRing);
    reader.pop(*record);
    position += record_bytes(kLongestInRing);
  }
  EXPECT_EQ(put(kLongestInRing)->length, kNoLength) << kRingBytes - position << " bytes are left";
  EXPECT_EQ(put(kLongestRecord)->length, kLongestRecord) << "its payload lies in the area";
}

TEST(ShmRing, APlaceOutsideTheAreaIsNotBelieved) {
  for (const std::uint64_t place : {std::uint64_t{kAreaBytes}, std::uint64_t{kAreaBytes - kLongestRecord + 1},
                                    std::uint64_t{1} << 40, UINT64_MAX}) {
    auto ring = std::make_unique<Ring>();
    const Record evil{stamp_at(0), RecordType::kWhole, 0, kLongestRecord, kLongestRecord, place};
    std::memcpy(ring->bytes, &evil, sizeof evil);
    EXPECT_EQ(RingReader(*ring).peek()->length, kNoLength) << place;
  }
}

// Many connections would else push each other's areas, and all that they carry, out of the caches.
TEST(ShmRing, ALapIsShorterWhereOtherConnectionsWriteMuch) {
  auto ring = std::make_unique<Ring>();
  RingWriter writer(*ring);
  RingReader reader(*ring);
  const std::vector<std::byte> payload(kLongestRecord);
  const std::byte* furthest = ring->area;
  for (int step = 0; step < 100; ++step) {
    ASSERT_TRUE(writer.write({0, RecordType::kWhole, 0, payload.size(), payload.size(), 0}, payload.data()));
    area_traffic += traffic_of_lap() / 4;
    const auto record = reader.peek();
    ASSERT_EQ(record->length, payload.size());
    furthest = std::max(furthest, reader.payload(*record) + payload.size());
    reader.pop(*record);
  }
  EXPECT_EQ(furthest, ring->area + kShortestLap);
}

// The random test above seldom fills the area.
TEST(ShmRing, AFullAreaTakesNothingUntilItsReaderMadeRoom) {
  auto ring = std::make_unique<Ring>();
  RingWriter writer(*ring);
  RingReader reader(*ring);
  std::mt19937_64 random(test_seed(8));
  const auto payload = test::random_data(random, kLongestRecord);
  const auto put = [&](std::size_t length) {
    return writer.write({0, RecordType::kWhole, 0, length, length, 0}, payload.data());
  };
  for (int lap = 0; lap < 5; ++lap) {
    std::size_t written = 0;
    while (put(kLongestRecord - 100)) ++written;
    EXPECT_FALSE(writer.has_room_for(kLongestRecord - 100));
    ASSERT_GE(written, kAreaBytes * 3 / 4 / kLongestRecord) << "lap " << lap;
    EXPECT_TRUE(put(8)) << "small messages need none of the area";
    for (; written > 0; --written) {
      const auto record = reader.peek();
      ASSERT_EQ(record->length, kLongestRecord - 100);
      ASSERT_EQ(std::memcmp(reader.payload(*record), payload.data(), record->length), 0);
      reader.pop(*record);
    }
    ASSERT_EQ(reader.peek()->length, 8u);
    reader.pop(*reader.peek());
    EXPECT_TRUE(reader.made_room());
  }
}

}  // namespace
}  // namespace tombolo::transport::shm
