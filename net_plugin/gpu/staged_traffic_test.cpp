// Messages of all sizes at once over staged connections: loopback TCP, UCX, shared memory and memory.
#include <gtest/gtest.h>

#include <deque>
#include <future>

#include "net_plugin/testing/staged_connections.h"

namespace tombolo::net_plugin::gpu {
namespace {

/// A size that has something to do with pieces, or none.
std::size_t draw_size(std::mt19937_64& random) {
  switch (random() % 6) {
    case 0:
      return random() % 9;
    case 1:
      return random() % 16384;
    case 2:
      return (random() % 4) * kPieceBytes;
    case 3:
      return (1 + random() % 3) * kPieceBytes + random() % 3 - 1;
    case 4:
      return std::size_t{1} << (random() % 21);
    default:
      return random() % 1'000'000;
  }
}

/// One direction of a connection in which messages of all kinds are under way.
class Traffic {
 public:
  Traffic(transport::Connection& from, transport::Connection& to, std::size_t count, unsigned seed, int gpus)
      : from_(from), to_(to), random_(seed) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t size = draw_size(random_), room = size + random_() % 3 * (random_() % 1000);
      auto& one = messages_.emplace_back();
      one.bytes = transport::test::random_data(random_, size);
      const auto gpu = [&] { return static_cast<int>(random_() % static_cast<unsigned>(gpus)); };
      const auto of = [&] { return random_() % 4 == 0 ? MemoryOf::kPrimaryContext : MemoryOf::kNoContext; };
      one.from = std::make_unique<Buffer>(from, size, random_() % 2 == 0, gpu(), of());
      one.to = std::make_unique<Buffer>(to, room, random_() % 2 == 0, gpu(), of());
      one.from->write(one.bytes);
    }
  }
  bool over() const { return sent_ == messages_.size() && received_ == messages_.size(); }

  /// Does one thing at random.
  void turn() {
    switch (random_() % 4) {
      case 0:
        if (posted_sends_ < messages_.size() && posted_sends_ - sent_ < 8) {
          Message& next = messages_[posted_sends_];
          next.send = from_.post_send(next.from->span(), next.from->memory());
          if (next.send != nullptr) ++posted_sends_;
        }
        break;
      case 1:
        if (posted_receives_ < messages_.size() && posted_receives_ - received_ < 8) {
          Message& next = messages_[posted_receives_];
          next.receive = to_.post_receive(next.to->span(), next.to->memory());
          if (next.receive != nullptr) ++posted_receives_;
        }
        break;
      case 2:
        test_any(from_, &Message::send, posted_sends_, sent_);
        break;
      default:
        test_any(to_, &Message::receive, posted_receives_, received_);
        break;
    }
  }

 private:
  struct Message {
    std::vector<std::byte> bytes;
    std::unique_ptr<Buffer> from, to;
    transport::Request* send = nullptr;
    transport::Request* receive = nullptr;
  };

  /// Any posted one, in whatever order.
  void test_any(transport::Connection& connection, transport::Request* Message::*which, std::size_t posted,
                std::size_t& count) {
    std::vector<Message*> under_way;
    for (std::size_t i = 0; i < posted; ++i)
      if (messages_[i].*which != nullptr) under_way.push_back(&messages_[i]);
    if (under_way.empty()) {
      connection.progress();
      return;
    }
    Message& message = *under_way[random_() % under_way.size()];
    transport::Request*& request = message.*which;
    std::size_t bytes = 0;
    const Outcome outcome = connection.test(request, bytes);
    if (outcome == Outcome::kPending) return;
    ASSERT_EQ(outcome, Outcome::kDone) << connection.error()->what();
    EXPECT_EQ(bytes, message.bytes.size());
    request = nullptr;
    ++count;
    if (which == &Message::send) return;
    std::vector<std::byte> got = message.to->read();
    for (std::size_t at = bytes; at < got.size(); ++at)
      ASSERT_EQ(got[at], std::byte{0xa5}) << "behind the message";
    got.resize(bytes);
    ASSERT_TRUE(got == message.bytes) << bytes << " bytes differ";
  }

  transport::Connection& from_;
  transport::Connection& to_;
  std::mt19937_64 random_;
  std::deque<Message> messages_;
  std::size_t posted_sends_ = 0, sent_ = 0, posted_receives_ = 0, received_ = 0;
};

struct Case {
  TestedBackend backend;
  PretendedPace pace = PretendedPace::kRandom;
  std::size_t buffer_bytes = std::size_t{64} << 20;
  std::size_t copies = 4;
};

void PrintTo(const Case& tested, std::ostream* stream) {
  *stream << tested.backend.name;
}

class StagedTraffic : public StagedConnections, public ::testing::WithParamInterface<Case> {};

TEST_P(StagedTraffic, ArrivesByteForByteBetweenHostAndGpuMemoryOfEitherEnd) {
  const Case& tested = GetParam();
  if (const std::string why = why_not(tested.backend); !why.empty()) GTEST_SKIP() << why;
  const unsigned seed = test_seed();
  PretendedCudaOptions options;
  options.gpus = 2;
  options.pace = tested.pace;
  options.seed = seed;
  start(options, tested.buffer_bytes, tested.copies);
  auto ends = connect(tested.backend, Directions::kBoth, Directions::kBoth);
  Traffic there(*ends.from, *ends.to, 40, seed, 2), back(*ends.to, *ends.from, 40, seed + 1, 2);
  cuda().forbid_making(true);
  for (auto deadline = soon(); !there.over() || !back.over();) {
    there.turn();
    back.turn();
    if (HasFatalFailure()) return;
    ASSERT_FALSE(deadline.passed());
  }
  EXPECT_LE(cuda().most_copies_to_host(), 4 * tested.copies);  // two GPUs, with memory of two kinds
  EXPECT_LE(cuda().most_copies_to_device(), 4 * tested.copies);
  EXPECT_GT(cuda().copies(), 10U);
  if (tested.buffer_bytes == 0) {
    EXPECT_EQ(staging_->pool().pieces(), staging_->pool().reserved()) << "exactly the minimum";
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, StagedTraffic,
    testing::Values(Case{memory()}, Case{memory(), PretendedPace::kLate, 0, 1}, Case{tcp()},
                    Case{tcp(), PretendedPace::kEarly}, Case{tcp(), PretendedPace::kLate, 0, 1},
                    Case{shm(TestedBackend::Shm::kFetch)},
                    Case{shm(TestedBackend::Shm::kFetch), PretendedPace::kLate, 0, 2},
                    Case{shm(TestedBackend::Shm::kRing)}, Case{ucx()}, Case{ucx(), PretendedPace::kEarly},
                    Case{ucx(), PretendedPace::kLate, 0, 1}),
    [](const auto& one) {
      const Case& tested = one.param;
      return fmt::format(
          "{}{}{}", tested.backend.name,
          tested.pace == PretendedPace::kEarly  ? "_early"
          : tested.pace == PretendedPace::kLate ? "_late"
                                                : "",
          tested.buffer_bytes == 0 ? fmt::format("_least_memory_{}_copies", tested.copies) : "");
    });

TEST_F(StagedConnections, ThreadsShareCopierAndPool) {
  const unsigned seed = test_seed();
  PretendedCudaOptions options;
  options.seed = seed;
  start(options, std::size_t{4} << 20, 3);
  std::vector<Ends> all;
  std::vector<std::future<void>> threads;
  for (int i = 0; i < 4; ++i) all.push_back(connect(tcp()));
  for (unsigned i = 0; i < all.size(); ++i) {
    threads.push_back(std::async(std::launch::async, [&ends = all[i], seed, i] {
      Traffic traffic(*ends.from, *ends.to, 15, seed + i, 1);
      for (auto deadline = soon(); !traffic.over() && !deadline.passed() && !HasFatalFailure();)
        traffic.turn();
      EXPECT_TRUE(traffic.over());
      cuda().check_thread();
    }));
  }
  for (auto& thread : threads) thread.get();
  EXPECT_LE(cuda().most_copies_to_host(), 6U);  // with memory of two kinds
  EXPECT_LE(cuda().most_copies_to_device(), 6U);
}

}  // namespace
}  // namespace tombolo::net_plugin::gpu
