// What one call does at most, whatever the peer does meanwhile: against a peer that never stops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "transport/shm/connection.h"
#include "transport/shm/steps.h"
#include "transport/testing/forwarding_kernel.h"
#include "transport/testing/test_messages.h"

namespace tombolo::transport::shm {
namespace {

using Shm = test::TestedBackend::Shm;

/// Runs something between any two accesses of a connection to shared memory, but not within itself.
class InBetween final : public Steps {
 public:
  explicit InBetween(std::function<void()> what) : what_(std::move(what)) {}
  void between_accesses() noexcept override {
    if (std::exchange(running_, true)) return;
    what_();
    running_ = false;
  }

 private:
  std::function<void()> what_;
  bool running_ = false;
  StepsInPlace in_place_{*this};
};

class BoundedCalls : public testing::TestWithParam<Shm> {
 protected:
  static constexpr std::size_t kMessage = 300'000, kMessages = 60;
  static constexpr std::uint64_t kMost = TurnBudget::kMost + kMessage;

  BoundedCalls() : pair_(test::make_connected({"Shm", false, {}, GetParam()})) {
    for (std::size_t i = 0; i < kMessages; ++i) {
      pair_.second->post_receive(got_[i]);
      pair_.first->post_send(sent_[i]);
    }
  }

  using Messages = std::vector<std::vector<std::byte>>;
  Messages sent_ = Messages(kMessages, std::vector<std::byte>(kMessage));
  Messages got_ = sent_;
  test::Pair pair_;
};

TEST_P(BoundedCalls, ReceiveOnlySoMuchOfAPeerThatNeverStops) {
  const InBetween peer([this] { pair_.first->progress(); });
  for (std::uint64_t before = 0; before < kMessages * kMessage;) {
    ASSERT_TRUE(pair_.second->progress());
    const std::uint64_t after = pair_.second->statistics().bytes_received;
    ASSERT_LE(after, before + kMost);
    before = after;
  }
}

TEST_P(BoundedCalls, SendOnlySoMuchToAPeerThatTakesItAtOnce) {
  std::uint64_t most = 0, sent = pair_.first->statistics().bytes_sent;
  while (sent < kMessages * kMessage) {
    // Parts that the peer reads by itself are counted when they were read.
    while (pair_.second->progress()) {
    }
    {
      const InBetween peer([this] { pair_.second->progress(); });
      pair_.first->progress();
    }
    const std::uint64_t before = std::exchange(sent, pair_.first->statistics().bytes_sent);
    most = std::max(most, sent - before);
  }
  const std::uint64_t left_to_read = GetParam() == Shm::kRead ? kMostToFetch * kFetchPart : 0;
  EXPECT_LE(most, kMost + left_to_read);
}

INSTANTIATE_TEST_SUITE_P(Shm, BoundedCalls, testing::Values(Shm::kRing, Shm::kRead),
                         [](const auto& tested) { return tested.param == Shm::kRing ? "Ring" : "Read"; });

/// The control channel always has more to read.
class FloodingKernel final : public test::ForwardingKernel {
 public:
  bool flooding = false;
  std::size_t given = 0;

  ssize_t recv(int socket, void* data, std::size_t size, int flags) noexcept override {
    if (!flooding) return ForwardingKernel::recv(socket, data, size, flags);
    if (given > std::size_t{1} << 24) {
      errno = EAGAIN;
      return -1;
    }
    given += size;
    return static_cast<ssize_t>(size);
  }
};

TEST(ShmBoundedCalls, ReadOnlySoManyWakeUps) {
  FloodingKernel kernel;
  const KernelInPlace in_place(kernel);
  auto pair = test::make_connected({"Shm", false, {}, Shm::kRing});
  kernel.flooding = true;
  std::vector<pollfd> handles;
  pair.first->append_wait_handles(handles);
  pair.first->progress();
  EXPECT_GT(kernel.given, 0u);
  EXPECT_LE(kernel.given, 4096u);
  kernel.flooding = false;
}

TEST(ShmBoundedCalls, AWriterThatSkipsTheWholeRingIsNotFollowed) {
  auto ring = std::make_unique<Ring>();
  const Record evil{stamp_at(0), RecordType::kSkip, 0, 0, 0, 0};
  std::memcpy(ring->bytes, &evil, sizeof evil);
  const auto record = RingReader(*ring).peek();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->length, kNoLength);
}

}  // namespace
}  // namespace tombolo::transport::shm
