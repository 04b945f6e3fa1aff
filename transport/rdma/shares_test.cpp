#include "transport/rdma/shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <numeric>
#include <random>

#include "base/randomized_test.h"

namespace tombolo::transport::rdma {
namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kDepth = 256;

std::vector<std::size_t> bytes_by_pair(Shares& shares, std::size_t pairs, std::size_t bytes) {
  std::vector<std::size_t> by_pair(pairs);
  PartList room;
  for (const Part& part : shares.divide(bytes, room)) {
    EXPECT_EQ(by_pair[part.pair], 0u) << "a pair gets one part";
    by_pair[part.pair] = part.bytes;
  }
  return by_pair;
}

TEST(RdmaShares, DividesByRates) {
  Shares shares(std::vector<double>{10e9, 4e9}, kDepth, false);
  const auto parts = bytes_by_pair(shares, 2, 14 * kMiB);
  EXPECT_NEAR(static_cast<double>(parts[0]), 10.0 * kMiB, Shares::kGrain);
  EXPECT_NEAR(static_cast<double>(parts[1]), 4.0 * kMiB, Shares::kGrain);
}

TEST(RdmaShares, WithoutKnownRatesAllCountAlikeAndTakeTurnsWithWhatIsSmall) {
  Shares shares(std::vector<double>{10e9, 0}, kDepth, false);
  const auto parts = bytes_by_pair(shares, 2, 2 * kMiB);
  EXPECT_EQ(parts[0], parts[1]);
  PartList room;
  const std::size_t first = shares.divide(100, room)[0].pair, second = shares.divide(100, room)[0].pair;
  EXPECT_NE(first, second);
}

TEST(RdmaShares, PartsAreWholeGrainsAndAddUp) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(3000); ++round) {
    const std::size_t pairs = 1 + random() % (kMostQueuePairs - 1);
    std::vector<double> rates(pairs);
    for (double& rate : rates) rate = 1e9 * static_cast<double>(1 + random() % 20);
    Shares shares(rates, kDepth, false);
    for (std::size_t i = 0; i < pairs; ++i)
      if (random() % 2 == 0) shares.posted(i, random() % (4 * kMiB), TimePoint{});
    const std::size_t bytes = 1 + random() % (random() % 2 == 0 ? 200'000 : 64 * kMiB);
    PartList room;
    const auto parts = shares.divide(bytes, room);
    std::size_t sum = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      sum += parts[i].bytes;
      if (i + 1 < parts.size()) {
        EXPECT_EQ(parts[i].bytes % Shares::kGrain, 0u);
        EXPECT_GE(parts[i].bytes, Shares::kSmallestPart);
      }
    }
    ASSERT_EQ(sum, bytes);
    ASSERT_GE(parts.back().bytes, std::min(bytes, Shares::kSmallestPart));
  }
}

TEST(RdmaShares, APairThatIsBehindTakesLess) {
  Shares shares(std::vector<double>{1e9, 1e9}, kDepth, false);
  shares.posted(0, 2 * kMiB, TimePoint{});
  auto parts = bytes_by_pair(shares, 2, 4 * kMiB);
  EXPECT_NEAR(static_cast<double>(parts[0]), 1.0 * kMiB, Shares::kGrain);
  EXPECT_NEAR(static_cast<double>(parts[1]), 3.0 * kMiB, Shares::kGrain);
  parts = bytes_by_pair(shares, 2, kMiB);
  EXPECT_EQ(parts[0], 0u) << "it has more under way than all of the message";
  shares.done(0);
  parts = bytes_by_pair(shares, 2, 4 * kMiB);
  EXPECT_EQ(parts[0], parts[1]);
}

/// Two NICs that attain what they attain, in a time of their own.
struct TwoNics {
  TwoNics(std::array<double, 2> declared, std::array<double, 2> attains)
      : shares(declared, kDepth, true), attained(attains) {}

  void send(std::size_t bytes) {
    PartList room;
    for (const Part& part : shares.divide(bytes, room)) {
      shares.posted(part.pair, part.bytes, clock.now());
      Duration& free = free_at[part.pair];
      free = std::max(free, now()) + from_seconds(static_cast<double>(part.bytes) / attained[part.pair]);
      ends[part.pair].push_back(free);
      by_pair[part.pair] += part.bytes;
    }
  }
  void look() {
    for (std::size_t pair = 0; pair < 2; ++pair) {
      for (; !ends[pair].empty() && ends[pair].front() <= now(); ends[pair].pop_front()) shares.done(pair);
    }
    shares.looked(clock.now());
  }
  bool idle() const { return ends[0].empty() && ends[1].empty(); }
  Duration now() const { return clock.now().time_since_epoch(); }
  /// Of all that was sent, how long it took, as a part of what both NICs together could have moved.
  double used(Duration since, std::size_t bytes) const {
    return static_cast<double>(bytes) / to_seconds(std::max(free_at[0], free_at[1]) - since) /
           (attained[0] + attained[1]);
  }

  FakeClock clock;
  Shares shares;
  std::array<double, 2> attained;
  std::array<Duration, 2> free_at{};
  std::array<std::deque<Duration>, 2> ends;
  std::array<std::size_t, 2> by_pair{};
};

/// Sends messages with up to `most` under way, and looks every so often; what part of both NICs was used by
/// the second half of them.
double used_by(TwoNics& nics, int messages, std::size_t most, Duration step, std::mt19937& random) {
  std::size_t bytes = 0;
  Duration since{};
  for (int i = 0; i < messages; ++i) {
    if (i == messages / 2) {
      while (!nics.idle()) {
        nics.clock.advance(step);
        nics.look();
      }
      since = nics.now();
      bytes = 0;
    }
    const std::size_t size = kMiB + random() % (8 * kMiB);
    bytes += size;
    nics.send(size);
    while (std::max(nics.ends[0].size(), nics.ends[1].size()) >= most) {
      nics.clock.advance(step);
      nics.look();
    }
  }
  return nics.used(since, bytes);
}

TEST(RdmaShares, LearnsFromCompletionsWhatWasDeclaredWrong) {
  std::mt19937 random(test_seed());
  for (const std::size_t under_way : {1, 4}) {
    TwoNics nics({1e9, 1e9}, {1e9, 0.4e9});
    EXPECT_GT(used_by(nics, 200, under_way, std::chrono::microseconds(20), random), 0.93)
        << under_way << " messages under way";
    EXPECT_NEAR(nics.shares.rate(1) / nics.shares.rate(0), 0.4, 0.08);
  }
}

TEST(RdmaShares, WhoSeldomLooksLearnsNothingWrong) {
  std::mt19937 random(test_seed());
  // Longer than any message takes: all that is seen is that all of it is done.
  TwoNics nics({1e9, 0.4e9}, {1e9, 0.4e9});
  for (int round = 0; round < test_rounds(500); ++round) {
    nics.send(kMiB + random() % (8 * kMiB));
    nics.clock.advance(std::chrono::milliseconds(50 + random() % 50));
    nics.look();
    ASSERT_NEAR(nics.shares.rate(1) / nics.shares.rate(0), 0.4, 0.02) << "round " << round;
  }
}

TEST(RdmaShares, FollowsANicThatBecomesSlowerAndFasterAgain) {
  std::mt19937 random(test_seed());
  TwoNics nics({1e9, 1e9}, {1e9, 1e9});
  for (const double attained : {1e9, 0.2e9, 1e9}) {
    nics.attained[1] = attained;
    used_by(nics, 300, 4, std::chrono::microseconds(20), random);
    EXPECT_NEAR(nics.shares.rate(1) / 1e9, attained / 1e9, 0.15);
  }
}

}  // namespace
}  // namespace tombolo::transport::rdma
