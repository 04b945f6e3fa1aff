// Comms with lanes over loopback: how their connections find each other.
#include "net_plugin/comms/door.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "net_plugin/comms/context.h"
#include "net_plugin/testing/loopback_node.h"

namespace tombolo::net_plugin {
namespace {

using std::chrono::seconds;

class NetDoor : public testing::TestWithParam<const char*> {
 protected:
  struct Ends {
    std::unique_ptr<Comm> send, receive;
  };

  Log log() {
    return {LogLevel::kInfo, [this](LogLevel, std::string_view text) {
              const std::lock_guard guard(lock_);
              log_ += fmt::format("{}\n", text);
            }};
  }
  Ends connect(ListenComm& listener) {
    const HandleBytes handle = listener.handle();
    Ends ends;
    for (const auto deadline = Deadline::after(seconds(60)); !(ends.send && ends.receive);) {
      if (deadline.passed()) throw std::runtime_error("not connected in time");
      if (!ends.send) ends.send = context_.connect(0, handle);
      if (!ends.receive) ends.receive = listener.accept();
    }
    return ends;
  }
  /// Sends one message with each tag, in that order, and receives them in one group in the other.
  static void expect_connected(Ends& ends, std::byte value, const std::vector<int>& tags) {
    std::vector<std::vector<std::byte>> out, in(tags.size(), std::vector<std::byte>(3));
    std::vector<Buffer> slots;
    for (std::size_t i = 0; i < tags.size(); ++i) {
      out.push_back({value, static_cast<std::byte>(tags[i]), value});
      slots.push_back({in[i], tags[tags.size() - 1 - i], nullptr});
    }
    Request* receive = nullptr;
    ASSERT_EQ(ends.receive->post(Comm::Direction::kReceive, slots, receive), abi::ncclSuccess);
    ASSERT_NE(receive, nullptr);
    std::vector<Request*> sends(tags.size());
    bool received = false;
    for (const auto deadline = Deadline::after(seconds(60));;) {
      ASSERT_FALSE(deadline.passed());
      bool all = true;
      for (std::size_t i = 0; i < tags.size(); ++i) {
        if (sends[i] != nullptr) continue;
        const Buffer buffer{out[i], tags[i], nullptr};
        ASSERT_EQ(ends.send->post(Comm::Direction::kSend, {&buffer, 1}, sends[i]), abi::ncclSuccess);
        all &= sends[i] != nullptr;
      }
      if (!received) {
        ASSERT_EQ(ends.receive->test(*receive, received, nullptr), abi::ncclSuccess);
      }
      if (all && received) break;
    }
    for (Request* one : sends) {
      bool sent = false;
      for (const auto deadline = Deadline::after(seconds(60)); !sent;) {
        ASSERT_FALSE(deadline.passed());
        ASSERT_EQ(ends.send->test(*one, sent, nullptr), abi::ncclSuccess);
      }
    }
    for (std::size_t i = 0; i < tags.size(); ++i) EXPECT_EQ(in[i], out[tags.size() - 1 - i]);
  }

  std::mutex lock_;
  std::string log_;
  std::shared_ptr<Node> node_ = testing_support::loopback_node({GetParam()});
  Context context_{node_, log()};
};

INSTANTIATE_TEST_SUITE_P(Over, NetDoor, testing::Values("tcp", "shm"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(NetDoor, TheCommsOfOneHandleHaveTheirOwnLanes) {
  auto listener = context_.listen(0);
  Ends one = connect(*listener), other = connect(*listener);
  expect_connected(one, std::byte{1}, {1, 2, 3});
  expect_connected(other, std::byte{2}, {3, 2, 1});
  Ends later = connect(*listener);
  expect_connected(later, std::byte{3}, {2, 5});
  expect_connected(one, std::byte{4}, {4, 1, 2});
}

TEST_P(NetDoor, LanesReachACommWhoseListenCommIsClosed) {
  auto listener = context_.listen(0);
  Ends ends = connect(*listener);
  listener.reset();
  expect_connected(ends, std::byte{1}, {0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_P(NetDoor, ASenderGetsItsLaneThoughTheReceiverMakesNoCalls) {
  auto listener = context_.listen(0);
  Ends ends = connect(*listener);
  std::vector<std::byte> data(10);
  for (const int tag : {1, 2}) {
    Request* request = nullptr;
    const Buffer buffer{data, tag, nullptr};
    for (const auto deadline = Deadline::after(seconds(60)); request == nullptr;) {
      ASSERT_FALSE(deadline.passed());
      ASSERT_EQ(ends.send->post(Comm::Direction::kSend, {&buffer, 1}, request), abi::ncclSuccess);
      std::this_thread::yield();
    }
  }
}

TEST_P(NetDoor, ANewTagTowardsACommThatHasEndedFailsInBoundedTime) {
  auto listener = context_.listen(0);
  Ends ends = connect(*listener);
  expect_connected(ends, std::byte{1}, {1});
  ends.receive.reset();
  std::vector<std::byte> data(10);
  const Buffer buffer{data, 2, nullptr};
  abi::ncclResult_t result = abi::ncclSuccess;
  for (const auto deadline = Deadline::after(seconds(50)); result == abi::ncclSuccess;) {
    ASSERT_FALSE(deadline.passed());
    Request* request = nullptr;
    result = ends.send->post(Comm::Direction::kSend, {&buffer, 1}, request);
    bool done = false;
    if (request != nullptr) result = ends.send->test(*request, done, nullptr);
    std::this_thread::yield();
  }
  EXPECT_EQ(result, abi::ncclRemoteError);
  EXPECT_NE(log_.find("tag 2"), std::string::npos) << log_;
}

// NCCL closes the listen comms of ranks that share another one's connection.
TEST_P(NetDoor, AListenCommThatNobodyAcceptedFromIsClosed) {
  node_->deadline = std::chrono::milliseconds(500);
  for (int i = 0; i < 50; ++i) context_.listen(0);
  auto listener = context_.listen(0);
  const HandleBytes handle = listener->handle();
  EXPECT_EQ(context_.connect(0, handle), nullptr);
  listener.reset();
  bool failed = false;
  for (const auto deadline = Deadline::after(seconds(50)); !failed && !deadline.passed();) {
    try {
      ASSERT_EQ(context_.connect(0, handle), nullptr);
    } catch (const Error&) {
      failed = true;
    }
  }
  EXPECT_TRUE(failed);
}

TEST_P(NetDoor, CommsWithRequestsInFlightOnSeveralLanesAreClosed) {
  std::vector<std::byte> large(4'000'000);
  for (const bool sender_first : {true, false}) {
    auto listener = context_.listen(0);
    Ends ends = connect(*listener);
    expect_connected(ends, std::byte{1}, {1, 2, 3});
    Request* request = nullptr;
    std::vector<Buffer> slots;
    for (const int tag : {1, 2, 3, 4}) slots.push_back({large, tag, nullptr});
    ASSERT_EQ(ends.receive->post(Comm::Direction::kReceive, slots, request), abi::ncclSuccess);
    for (const Buffer& one : std::span(slots).first(3)) {
      Request* send = nullptr;
      ASSERT_EQ(ends.send->post(Comm::Direction::kSend, {&one, 1}, send), abi::ncclSuccess);
    }
    bool done = true;
    ASSERT_EQ(ends.receive->test(*request, done, nullptr), abi::ncclSuccess);
    (sender_first ? ends.send : ends.receive).reset();
    if (!sender_first) continue;
    abi::ncclResult_t result = abi::ncclSuccess;
    for (const auto deadline = Deadline::after(seconds(50)); result == abi::ncclSuccess;) {
      ASSERT_FALSE(deadline.passed());
      result = ends.receive->test(*request, done, nullptr);
      ASSERT_FALSE(done) << "tag 4 was never sent";
    }
  }
}

TEST_P(NetDoor, RanksThatDoNotGroupAlikeAreTold) {
  auto listener = context_.listen(0);
  auto other_node = testing_support::loopback_node();
  other_node->groups = false;
  Context other(other_node, log());
  const HandleBytes handle = listener->handle();
  try {
    other.connect(0, handle);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kInvalidUsage);
    EXPECT_STREQ(error.what(),
                 "the peer has TOMBOLO_NET_GROUPS=on, this rank off: NCCL lays out its connections by it, so "
                 "set it alike on all ranks");
  }
}

TEST_P(NetDoor, WithoutGroupsACommHasOneConnection) {
  node_->groups = false;
  auto listener = context_.listen(0);
  Ends ends = connect(*listener);
  EXPECT_EQ(ends.receive->most_receives(), 1);
  expect_connected(ends, std::byte{1}, {9});
  expect_connected(ends, std::byte{2}, {4});
}

}  // namespace
}  // namespace tombolo::net_plugin
