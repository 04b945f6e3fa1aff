// The contract of transport.h as a suite of tests. A test program includes this once and instantiates it for
// its backends: INSTANTIATE_TEST_SUITE_P(Name, Conformance, testing::Values(TestedBackend...)).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "base/randomized_test.h"
#include "transport/observe/traced.h"
#include "transport/testing/random_sizes.h"
#include "transport/testing/test_support.h"

namespace tombolo::transport::test {

class Conformance : public testing::TestWithParam<TestedBackend> {
 protected:
  void SetUp() override {
    if (const std::string problem = test::why_not(GetParam()); !problem.empty()) GTEST_SKIP() << problem;
  }
  test::Pair connect() {
    auto [left, right] = make_connected(GetParam(), 42);
    Tracer* tracer = GetParam().traced ? &tracer_ : nullptr;
    return {traced(std::move(left), tracer), traced(std::move(right), tracer)};
  }
  Tracer tracer_{100'000};
  test::Pair pair_ = connect();
  Connection& left_ = *pair_.first;
  Connection& right_ = *pair_.second;
};

TEST_P(Conformance, BothEndsKnowTheLabel) {
  EXPECT_EQ(left_.label(), 42u);
  EXPECT_EQ(right_.label(), 42u);
}

TEST_P(Conformance, MessagesMatchReceivesInPostingOrderWithRealSizes) {
  std::vector<std::vector<std::byte>> sent{
      std::vector<std::byte>(5, std::byte{1}), {}, std::vector<std::byte>(3000, std::byte{2})};
  std::vector<Request*> sends, receives;
  std::vector<std::vector<std::byte>> buffers(3, std::vector<std::byte>(4000, std::byte{0xee}));
  for (auto& message : sent) sends.push_back(left_.post_send(message));
  for (auto& buffer : buffers) receives.push_back(right_.post_receive(buffer));
  for (std::size_t i = 0; i < 3; ++i) {
    std::size_t bytes = 0;
    ASSERT_EQ(finish(left_, sends[i], bytes, &right_), Outcome::kDone);
    EXPECT_EQ(bytes, sent[i].size());
    ASSERT_EQ(finish(right_, receives[i], bytes, &left_), Outcome::kDone);
    EXPECT_EQ(bytes, sent[i].size());
    EXPECT_TRUE(std::equal(sent[i].begin(), sent[i].end(), buffers[i].begin()));
    EXPECT_EQ(buffers[i][bytes], std::byte{0xee}) << "nothing is written beyond the message";
  }
  EXPECT_EQ(left_.statistics().messages_sent, 3u);
  EXPECT_EQ(left_.statistics().bytes_sent, 3005u);
  EXPECT_EQ(right_.statistics().messages_received, 3u);
  EXPECT_EQ(right_.statistics().bytes_received, 3005u);
}

TEST_P(Conformance, RequestsMayBeTestedInAnyOrder) {
  std::vector<std::vector<std::byte>> sent, buffers;
  std::vector<Request*> sends, receives;
  for (std::size_t i = 0; i < 20; ++i) {
    sent.emplace_back(i * 5000, static_cast<std::byte>(i));
    buffers.emplace_back(100'000);
  }
  for (std::size_t i = 0; i < 20; ++i) {
    sends.push_back(left_.post_send(sent[i]));
    receives.push_back(right_.post_receive(buffers[i]));
  }
  // Only the newest request is tested; that must complete all before it as well.
  std::size_t bytes = 0;
  ASSERT_EQ(finish(right_, receives[19], bytes, &left_), Outcome::kDone);
  for (std::size_t i = 19; i-- > 0;) {
    ASSERT_EQ(finish(right_, receives[i], bytes, &left_), Outcome::kDone);
    EXPECT_EQ(bytes, i * 5000);
    EXPECT_TRUE(std::equal(sent[i].begin(), sent[i].end(), buffers[i].begin()));
  }
  for (std::size_t i = 20; i-- > 0;) EXPECT_EQ(finish(left_, sends[i], bytes, &right_), Outcome::kDone);
}

TEST_P(Conformance, AMessageLargerThanItsReceiveFailsTheConnectionNamingBothSizes) {
  std::vector<std::byte> message(1000), buffer(999);
  Request* send = left_.post_send(message);
  Request* receive = right_.post_receive(buffer);
  std::size_t bytes = 0;
  finish(left_, send, bytes, &right_);
  ASSERT_EQ(finish(right_, receive, bytes, &left_), Outcome::kFailed);
  ASSERT_NE(right_.error(), nullptr);
  std::string text = right_.error()->what();
  EXPECT_NE(text.find("1000"), std::string::npos) << text;
  EXPECT_NE(text.find("999"), std::string::npos) << text;
  // Everything that follows fails too, at both ends, but posting still works.
  for (int i = 0; i < 1000; ++i) {
    Request* late = i % 2 == 0 ? right_.post_receive(buffer) : right_.post_send(buffer);
    ASSERT_NE(late, nullptr);
    ASSERT_EQ(finish(right_, late, bytes), Outcome::kFailed);
  }
  Request* other = left_.post_receive(buffer);
  ASSERT_EQ(finish(left_, other, bytes, &right_), Outcome::kFailed);
  text = left_.error()->what();
  EXPECT_NE(text.find("1000"), std::string::npos) << text;
  EXPECT_NE(text.find("999"), std::string::npos) << text;
}

TEST_P(Conformance, AFullPoolGivesNullAndRecovers) {
  std::byte byte{7};
  std::vector<Request*> receives;
  std::vector<std::byte> buffers(5000);
  for (Request* request = nullptr;
       (request = right_.post_receive({&buffers[receives.size()], 1})) != nullptr;) {
    receives.push_back(request);
    ASSERT_LT(receives.size(), buffers.size());
  }
  EXPECT_GE(receives.size(), 64u);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < receives.size(); ++i) {
    Request* send = left_.post_send({&byte, 1});
    ASSERT_NE(send, nullptr);
    ASSERT_EQ(finish(left_, send, bytes, &right_), Outcome::kDone);
  }
  for (Request* request : receives) ASSERT_EQ(finish(right_, request, bytes, &left_), Outcome::kDone);
  EXPECT_NE(right_.post_receive(buffers), nullptr);
}

TEST_P(Conformance, AFullPoolOfSendsGivesNull) {
  std::byte byte{7};
  std::size_t posted = 0;
  while (left_.post_send({&byte, 1}) != nullptr) ASSERT_LT(++posted, 5000u);
  EXPECT_GE(posted, 64u);
}

// NCCL does this: it asks for a send repeatedly and has nothing left to test.
TEST_P(Conformance, PostingAloneGoesOnOnceThePeerHasTakenWhatItHeldBack) {
  constexpr std::size_t kMessages = 5000;
  std::array<std::byte, 8> data{}, buffer{};
  std::size_t bytes = 0, posted = 0;
  // As many as are done without a call of the peer's, until no more are taken.
  bool held_back = false;
  for (Outcome outcome = Outcome::kDone; outcome == Outcome::kDone && posted < kMessages && !held_back;) {
    Request* send = left_.post_send(data);
    held_back = send == nullptr;
    if (held_back) break;
    ++posted;
    outcome = Outcome::kPending;
    for (int i = 0; i < 100 && outcome == Outcome::kPending; ++i) outcome = left_.test(send, bytes);
    ASSERT_NE(outcome, Outcome::kFailed);
  }
  for (std::size_t i = 0; i < posted; ++i)
    ASSERT_EQ(finish(right_, right_.post_receive(buffer), bytes, held_back ? nullptr : &left_),
              Outcome::kDone);
  for (auto deadline = test::soon(); held_back; held_back = left_.post_send(data) == nullptr)
    ASSERT_FALSE(deadline.passed()) << "after " << posted;
}

TEST_P(Conformance, ClosingFailsThePeersRequests) {
  std::vector<std::byte> buffer(10);
  Request* receive = right_.post_receive(buffer);
  pair_.first.reset();
  std::size_t bytes = 0;
  ASSERT_EQ(finish(right_, receive, bytes), Outcome::kFailed);
  ASSERT_NE(right_.error(), nullptr);
  EXPECT_EQ(right_.error()->cause(), Cause::kRemote);
}

TEST_P(Conformance, ClosingWithRequestsInFlightIsLegal) {
  std::vector<std::byte> large(8 << 20), buffer(8 << 20), touched(8 << 20);
  left_.post_send(large);
  left_.post_receive(touched);
  Request* receive = right_.post_receive(buffer);
  Request* unanswered = right_.post_receive(buffer);
  Request* send = right_.post_send(large);
  for (int i = 0; i < 3; ++i) {
    left_.progress();
    right_.progress();
  }
  pair_.first.reset();
  // The buffers belong to this test again.
  std::vector<std::byte>().swap(touched);
  std::size_t bytes = 0;
  // What had moved far enough may be done. Nothing may hang, and what will never be answered fails.
  EXPECT_NE(finish(right_, send, bytes), Outcome::kPending);
  EXPECT_NE(finish(right_, receive, bytes), Outcome::kPending);
  EXPECT_EQ(finish(right_, unanswered, bytes), Outcome::kFailed);
  ASSERT_NE(right_.error(), nullptr);
  EXPECT_EQ(right_.error()->cause(), Cause::kRemote) << right_.error()->what();
}

TEST_P(Conformance, RandomSchedulesInBothDirectionsDeliverEveryByte) {
  std::mt19937_64 random(test_seed());
  constexpr std::size_t kMessages = 60;
  struct Side {
    Connection* connection;
    std::vector<std::vector<std::byte>> sent, buffers;
    std::vector<Request*> sends = {}, receives = {};
    std::size_t open = 0;
  };
  const auto pick_size = [&] {
    const bool long_one = random() % 120 == 0;
    return long_one ? std::size_t{8} << 20 : random_size(random, random() % 2 == 0 ? 300'000 : 1'000'000);
  };
  Side sides[2] = {{&left_, {}, {}}, {&right_, {}, {}}};
  for (auto& side : sides) {
    for (std::size_t i = 0; i < kMessages; ++i) side.sent.push_back(random_data(random, pick_size()));
  }
  for (int s = 0; s < 2; ++s) {
    for (const auto& message : sides[1 - s].sent) {
      sides[s].buffers.emplace_back(message.size() + random() % 3 * 1000, std::byte{0x5a});
    }
  }
  auto deadline = test::soon();
  std::size_t open = 4 * kMessages;
  while (open > 0 && !deadline.passed()) {
    for (int s = 0; s < 2; ++s) {
      Side& side = sides[s];
      Connection& connection = *side.connection;
      switch (random() % 4) {
        case 0:
          if (side.sends.size() < kMessages) {
            side.sends.push_back(connection.post_send(side.sent[side.sends.size()]));
            ASSERT_NE(side.sends.back(), nullptr);
          }
          break;
        case 1:
          if (side.receives.size() < kMessages) {
            side.receives.push_back(connection.post_receive(side.buffers[side.receives.size()]));
            ASSERT_NE(side.receives.back(), nullptr);
          }
          break;
        default: {
          bool is_send = random() % 2 == 0;
          auto& requests = is_send ? side.sends : side.receives;
          if (requests.empty()) break;
          std::size_t i = random() % requests.size();
          if (requests[i] == nullptr) break;
          std::size_t bytes = 0;
          Outcome outcome = connection.test(requests[i], bytes);
          ASSERT_NE(outcome, Outcome::kFailed) << connection.error()->what();
          if (outcome == Outcome::kPending) break;
          requests[i] = nullptr;
          --open;
          const auto& message = is_send ? side.sent[i] : sides[1 - s].sent[i];
          ASSERT_EQ(bytes, message.size());
          if (is_send) break;
          ASSERT_TRUE(std::equal(message.begin(), message.end(), side.buffers[i].begin())) << "message " << i;
          for (std::size_t j = message.size(); j < side.buffers[i].size(); ++j) {
            ASSERT_EQ(side.buffers[i][j], std::byte{0x5a});
          }
        }
      }
    }
  }
  EXPECT_EQ(open, 0u) << "not all done within the deadline";
}

TEST_P(Conformance, WaitHandlesWakeTheReceiver) {
  std::vector<std::byte> message(100'000, std::byte{3}), buffer(100'000);
  Request* receive = right_.post_receive(buffer);
  std::size_t bytes = 0;
  ASSERT_EQ(right_.test(receive, bytes), Outcome::kPending);
  Request* send = left_.post_send(message);
  auto deadline = test::soon();
  bool sent = false;
  for (;;) {
    if (!sent) sent = left_.test(send, bytes) == Outcome::kDone;
    std::vector<pollfd> handles;
    right_.append_wait_handles(handles);
    if (!sent) left_.append_wait_handles(handles);
    ASSERT_FALSE(handles.empty());
    ASSERT_GT(::poll(handles.data(), handles.size(), deadline.poll_milliseconds()), 0) << "slept through it";
    if (right_.test(receive, bytes) == Outcome::kDone) break;
  }
  EXPECT_EQ(message, buffer);
}

TEST_P(Conformance, EachEndMayBeUsedByItsOwnThread) {
  constexpr int kMessages = 100;
  auto one_end = [](Connection& connection, std::byte mine, std::byte theirs) {
    const std::vector<std::byte> message(5000, mine), expected(5000, theirs);
    std::vector<std::byte> buffer(5000);
    for (int i = 0; i < kMessages; ++i) {
      std::size_t size = static_cast<std::size_t>(i) * 48;
      Request* send = connection.post_send(std::span(message).first(size));
      Request* receive = connection.post_receive(buffer);
      std::size_t bytes = 0;
      ASSERT_EQ(finish(connection, receive, bytes), Outcome::kDone);
      ASSERT_EQ(bytes, size);
      ASSERT_EQ(std::memcmp(buffer.data(), expected.data(), size), 0);
      std::fill_n(buffer.begin(), size, mine);
      ASSERT_EQ(finish(connection, send, bytes), Outcome::kDone);
    }
  };
  std::thread other([&] { one_end(right_, std::byte{2}, std::byte{1}); });
  one_end(left_, std::byte{1}, std::byte{2});
  other.join();
}

TEST_P(Conformance, CudaMemoryIsRefusedWhereTheProcessorCopiesAndHostMemoryAccepted) {
  std::vector<std::byte> buffer(10);
  EXPECT_NE(left_.register_memory(buffer, MemoryKind::kHost), nullptr);
  if (GetParam().gpu_memory) return;  // each such transport has tests of its own for it
  EXPECT_THROW(left_.register_memory(buffer, MemoryKind::kCuda), Error);
}

}  // namespace tombolo::transport::test
