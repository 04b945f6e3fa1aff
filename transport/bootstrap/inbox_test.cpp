#include "transport/bootstrap/inbox.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

namespace tombolo::transport::bootstrap {
namespace {

AuthenticatedStream stream_of(std::uint64_t label) {
  AuthenticatedStream stream;
  stream.hello.label = label;
  return stream;
}

bool readable(int descriptor) {
  pollfd one{descriptor, POLLIN, 0};
  return ::poll(&one, 1, 0) == 1;
}

TEST(Inbox, GivesStreamsInTheirOrder) {
  Inbox inbox;
  EXPECT_TRUE(inbox.empty());
  EXPECT_FALSE(inbox.take());
  for (std::uint64_t label = 0; label < 3; ++label) inbox.put(stream_of(label));
  for (std::uint64_t label = 0; label < 3; ++label) {
    EXPECT_FALSE(inbox.empty());
    const auto taken = inbox.take();
    ASSERT_TRUE(taken);
    EXPECT_EQ(taken->hello.label, label);
  }
  EXPECT_TRUE(inbox.empty());
}

TEST(Inbox, ItsHandleIsReadableExactlyWhileSomethingWaits) {
  Inbox inbox;
  const int handle = inbox.wait_handle();
  ASSERT_GE(handle, 0);
  EXPECT_EQ(inbox.wait_handle(), handle);
  for (int round = 0; round < 3; ++round) {
    EXPECT_FALSE(readable(handle));
    inbox.put(stream_of(1));
    inbox.put(stream_of(2));
    EXPECT_TRUE(readable(handle));
    inbox.take();
    EXPECT_TRUE(readable(handle)) << "one still waits";
    inbox.take();
  }
  EXPECT_FALSE(readable(handle));
  EXPECT_FALSE(inbox.take());
}

TEST(Inbox, AHandleMadeLateKnowsOfWhatWaitsAlready) {
  Inbox inbox;
  inbox.put(stream_of(1));
  EXPECT_TRUE(readable(inbox.wait_handle()));
  inbox.take();
  EXPECT_FALSE(readable(inbox.wait_handle()));
}

TEST(Inbox, LosesNothingBetweenThreads) {
  constexpr std::uint64_t kEach = 2000;
  Inbox inbox;
  inbox.wait_handle();
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      for (std::uint64_t label = 0; label < kEach; ++label) inbox.put(stream_of(i * kEach + label));
    });
  }
  std::uint64_t next[2] = {0, kEach};
  for (std::uint64_t taken = 0; taken < 2 * kEach; ++taken) {
    pollfd one{inbox.wait_handle(), POLLIN, 0};
    ASSERT_EQ(::poll(&one, 1, 60'000), 1);
    const auto stream = inbox.take();
    ASSERT_TRUE(stream);
    ASSERT_EQ(stream->hello.label, next[stream->hello.label / kEach]++) << "each thread's in their order";
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(inbox.empty());
}

}  // namespace
}  // namespace tombolo::transport::bootstrap
