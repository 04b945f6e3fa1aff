#include "bench/channels.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/error.h"

namespace tombolo::bench {
namespace {

TEST(Stamp, TellsChannelAndIndexAtBothEndsOfAMessage) {
  std::vector<std::byte> message(32);
  stamp(message, 1, 5);
  EXPECT_NO_THROW(check_stamp(message, 1, 5));
  EXPECT_THROW(check_stamp(message, 1, 6), Error);
  EXPECT_THROW(check_stamp(message, 2, 5), Error);
  message.back() ^= std::byte{1};
  EXPECT_THROW(check_stamp(message, 1, 5), Error);
}

TEST(Stamp, FitsAMessageOfOneByte) {
  std::vector<std::byte> message(1);
  stamp(message, 0, 3);
  EXPECT_NO_THROW(check_stamp(message, 0, 3));
  message[0] ^= std::byte{1};
  EXPECT_THROW(check_stamp(message, 0, 3), Error);
}

/// Both ends of connections for so many channels.
std::pair<std::vector<int>, std::vector<int>> connected(std::size_t channels) {
  std::pair<std::vector<int>, std::vector<int>> ends;
  for (std::size_t channel = 0; channel < channels; ++channel) {
    const auto [near, far] = plain_pair();
    ends.first.push_back(near);
    ends.second.push_back(far);
  }
  return ends;
}

TEST(PlainChannels, StreamEveryMessageOfEveryChannel) {
  constexpr std::size_t kChannels = 3, kCount = 100;
  for (const std::size_t size : {std::size_t{1}, std::size_t{1000}, std::size_t{300'000}}) {
    auto [near, far] = connected(kChannels);
    PlainChannels sending(near), receiving(far);
    std::vector<std::byte> out(kChannels * kOutstanding * size), in(out.size());
    std::uint64_t received = 0;
    std::thread sender([&] {
      sending.stream(true, {kChannels, size, kCount, out, nullptr, spin_and_yield, {}});
    });
    EXPECT_NO_THROW(receiving.stream(false, {kChannels, size, kCount, in, &received, spin_and_yield, {}}));
    sender.join();
    EXPECT_EQ(received, kChannels * kCount * size);
  }
}

TEST(PlainChannels, AStreamEndsWhenAskedTo) {
  auto [near, far] = connected(1);
  PlainChannels receiving(far), idle(near);
  std::vector<std::byte> in(kOutstanding * 8);
  int asked = 0;
  receiving.stream(false, {1, 8, 1, in, nullptr, [](unsigned) {}, [&] { return ++asked < 3; }});
  EXPECT_EQ(asked, 3);
}

}  // namespace
}  // namespace tombolo::bench
