// Events of messages as NCCL's callback sees them, over the transport within a process.
#include "net_plugin/comms/events.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>
#include <vector>

#include "base/randomized_test.h"
#include "net_plugin/abi/net_events.h"
#include "net_plugin/comms/comm.h"
#include "net_plugin/entry_points.h"
#include "transport/memory/pair.h"

namespace tombolo::net_plugin {
namespace {

/// What NCCL's callback is: it gives events, or null while no profiler wants them, and must not be misused.
class Recorder {
 public:
  struct Event {
    void* parent = nullptr;
    std::int64_t id = 0;
    std::size_t posted = 0, real = 0;
    int starts = 0, stops = 0, updates = 0;
    bool send = false;
  };

  static Recorder& instance() {
    static Recorder one;
    return one;
  }
  void reset(bool wanted) {
    wanted_ = wanted;
    calls = 0;
    events.clear();
  }

  static abi::ncclResult_t callback(void** handle, int type, void* parent, std::int64_t id, void* data) {
    return instance().take(handle, type, parent, id, data);
  }

  int calls = 0;
  std::vector<std::unique_ptr<Event>> events;

 private:
  abi::ncclResult_t take(void** handle, int type, void* parent, std::int64_t id, void* data) {
    ++calls;
    if (type == abi::ncclProfilerNetEventStart) {
      EXPECT_NE(parent, nullptr) << "NCCL would read it";
      EXPECT_EQ(*handle, nullptr) << "an event that was not stopped";
      if (!wanted_) return abi::ncclSuccess;
      auto event = std::make_unique<Event>();
      event->parent = parent;
      event->id = id;
      event->starts = 1;
      describe(*event, data);
      *handle = event.get();
      events.push_back(std::move(event));
      return abi::ncclSuccess;
    }
    EXPECT_NE(*handle, nullptr) << "a profiler may not bear that";
    if (*handle == nullptr) return abi::ncclSuccess;
    auto& event = *static_cast<Event*>(*handle);
    EXPECT_EQ(event.stops, 0) << "stopped twice";
    if (type == abi::ncclProfilerNetEventUpdateAndStop) {
      ++event.updates;
      event.real = static_cast<NetEvent*>(data)->bytes;
    }
    ++event.stops;
    return abi::ncclSuccess;
  }
  static void describe(Event& event, void* data) {
    if (event.id == kOwnEventId) {
      const auto& own = *static_cast<NetEvent*>(data);
      event.posted = own.bytes;
      event.send = own.send;
      EXPECT_EQ(own.route->transport, "memory");
    } else {
      EXPECT_EQ(event.id, abi::NCCL_PROFILER_NET_TYPE_SOCK | 1);
      const auto& socket = *static_cast<abi::ncclProfilerNetSockDescr_v1_t*>(data);
      EXPECT_EQ(socket.type, abi::ncclProfileSocket);
      event.posted = socket.sock.length;
      event.send = socket.sock.op == 0;
    }
  }

  bool wanted_ = true;
};

class NetEvents : public testing::Test {
 protected:
  NetEvents() {
    recorder_.reset(true);
    auto [near, far] = transport::memory::make_pair();
    send_ = std::make_unique<Comm>(Comm::Direction::kSend, nullptr,
                                   std::make_unique<OneLane>(std::move(near)), Log());
    receive_ = std::make_unique<Comm>(Comm::Direction::kReceive, nullptr,
                                      std::make_unique<OneLane>(std::move(far)), Log());
    observe(Recorder::callback);
  }
  ~NetEvents() override { own_profiler_listens = false; }
  void observe(abi::ncclProfilerCallback_t callback) {
    send_->observe(callback);
    receive_->observe(callback);
  }
  void* send(std::size_t bytes, void* parent) {
    void* request = nullptr;
    EXPECT_EQ(entry::send(send_.get(), out_.data(), bytes, 0, nullptr, parent, &request), abi::ncclSuccess);
    return request;
  }
  void* receive(std::size_t bytes, void* parent, bool with_parents = true) {
    void* request = nullptr;
    void* data = in_.data();
    const int tag = 0;
    EXPECT_EQ(entry::receive(receive_.get(), 1, &data, &bytes, &tag, nullptr,
                             with_parents ? &parent : nullptr, &request),
              abi::ncclSuccess);
    return request;
  }
  static bool test(void* request, abi::ncclResult_t expected = abi::ncclSuccess) {
    int done = 0, size = 0;
    EXPECT_EQ(entry::test(request, &done, &size), expected);
    return done != 0;
  }

  Recorder& recorder_ = Recorder::instance();
  std::unique_ptr<Comm> send_, receive_;
  std::array<std::byte, 4096> out_{}, in_{};
  int parent_ = 0, other_parent_ = 0;
};

TEST_F(NetEvents, StartWhenPostedAndStopBeforeTestIsDone) {
  void* receive_request = receive(4096, &other_parent_);
  ASSERT_EQ(recorder_.events.size(), 1U);
  EXPECT_FALSE(test(receive_request));
  EXPECT_EQ(recorder_.events[0]->stops, 0);
  void* send_request = send(60, &parent_);
  EXPECT_TRUE(test(send_request));
  EXPECT_TRUE(test(receive_request));
  ASSERT_EQ(recorder_.events.size(), 2U);
  const auto& received = *recorder_.events[0];
  const auto& sent = *recorder_.events[1];
  EXPECT_EQ(received.parent, &other_parent_);
  EXPECT_EQ(received.posted, 4096U);
  EXPECT_FALSE(received.send);
  EXPECT_EQ(sent.parent, &parent_);
  EXPECT_EQ(sent.posted, 60U);
  EXPECT_TRUE(sent.send);
  for (const auto& event : recorder_.events) {
    EXPECT_EQ(event->starts, 1);
    EXPECT_EQ(event->stops, 1);
    EXPECT_EQ(event->updates, 0) << "releases before 2.27 know no update";
  }
}

TEST_F(NetEvents, NothingIsToldWithoutAParent) {
  void* receive_request = receive(4096, nullptr);
  EXPECT_TRUE(test(send(60, nullptr)));
  EXPECT_TRUE(test(receive_request));
  receive_request = receive(4096, nullptr, false);
  EXPECT_TRUE(test(send(60, nullptr)));
  EXPECT_TRUE(test(receive_request));
  EXPECT_EQ(recorder_.calls, 0);
}

TEST_F(NetEvents, NothingIsToldWithoutACallback) {
  observe(nullptr);
  void* receive_request = receive(4096, &parent_);
  EXPECT_TRUE(test(send(60, &parent_)));
  EXPECT_TRUE(test(receive_request));
  EXPECT_EQ(recorder_.calls, 0);
}

TEST_F(NetEvents, AnEventThatNoProfilerWantedIsNotStopped) {
  recorder_.reset(false);
  void* receive_request = receive(4096, &parent_);
  EXPECT_TRUE(test(send(60, &parent_)));
  EXPECT_TRUE(test(receive_request));
  EXPECT_EQ(recorder_.calls, 2) << "the two starts";
}

TEST_F(NetEvents, ThePluginsOwnProfilerLearnsTheRealSize) {
  own_profiler_listens = true;
  void* receive_request = receive(4096, &parent_);
  EXPECT_TRUE(test(send(60, &parent_)));
  EXPECT_TRUE(test(receive_request));
  ASSERT_EQ(recorder_.events.size(), 2U);
  for (const auto& event : recorder_.events) {
    EXPECT_EQ(event->id, kOwnEventId);
    EXPECT_EQ(event->stops, 1);
    EXPECT_EQ(event->real, 60U);
  }
  EXPECT_EQ(recorder_.events[0]->posted, 4096U);
}

TEST_F(NetEvents, AFailureStopsWhatIsUnderWayOnce) {
  void* first = receive(4096, &parent_);
  void* second = receive(4096, &parent_);
  send_.reset();
  for (int i = 0; i < 3; ++i) {
    int done = 0;
    for (void* request : {first, second}) EXPECT_NE(entry::test(request, &done, nullptr), abi::ncclSuccess);
  }
  ASSERT_EQ(recorder_.events.size(), 2U);
  for (const auto& event : recorder_.events) EXPECT_EQ(event->stops, 1);
}

TEST_F(NetEvents, WhatIsDroppedWithItsCommIsToldNoMore) {
  receive(4096, &parent_);
  receive_.reset();
  ASSERT_EQ(recorder_.events.size(), 1U);
  EXPECT_EQ(recorder_.events[0]->stops, 0) << "its profiler may be gone";
}

TEST_F(NetEvents, PairUpInAnyOrder) {
  std::mt19937 random(test_seed());
  std::vector<void*> sends, receives;
  const int messages = test_rounds(1000);
  int posted = 0, sent = 0, over = 0;
  while (over < 2 * messages) {
    // Each message meets a receive that was posted before, so that no step waits for a later one.
    if (posted < messages && receives.size() < 20 && random() % 2 == 0) {
      receives.push_back(receive(4096, random() % 4 == 0 ? nullptr : &parent_));
      ++posted;
    }
    if (sent < posted && sends.size() < 20 && random() % 2 == 0) {
      sends.push_back(send(random() % 1000, random() % 4 == 0 ? nullptr : &parent_));
      ++sent;
    }
    auto& tested = random() % 2 == 0 ? sends : receives;
    if (tested.empty()) continue;
    const auto which = tested.begin() + static_cast<std::ptrdiff_t>(random() % tested.size());
    if (!test(*which)) continue;
    tested.erase(which);
    ++over;
  }
  EXPECT_GT(recorder_.events.size(), 0U);
  for (const auto& event : recorder_.events) EXPECT_EQ(event->stops, 1);
}

}  // namespace
}  // namespace tombolo::net_plugin
