#include "transport/tcp/stream/staging.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "base/randomized_test.h"

namespace tombolo::transport::tcp {
namespace {

/// Adds so many bytes, which count from `next`.
void fill(Staging& staging, std::size_t bytes, std::uint8_t& next) {
  for (std::byte& one : staging.room().first(bytes)) one = std::byte{next++};
  staging.add(bytes);
}

TEST(Staging, GivesOutWhatCameInItsOrderHoweverItMovesAndGrows) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < test_rounds(20); ++round) {
    Staging staging;
    staging.reset();
    std::vector<std::byte> came;
    std::size_t used = 0;
    std::uint8_t next = 0;
    for (int step = 0; step < 100; ++step) {
      switch (random() % 4) {
        case 0:
          staging.move_to_front();
          break;
        case 1:
          staging.make_room();
          ASSERT_FALSE(staging.room().empty());
          break;
        case 2: {
          const std::size_t bytes = staging.room().size() / (1 + random() % 8);
          fill(staging, bytes, next);
          const auto added = staging.unused().last(bytes);
          came.insert(came.end(), added.begin(), added.end());
          break;
        }
        default: {
          const std::size_t bytes = random() % (staging.size() + 1);
          staging.use(bytes);
          used += bytes;
        }
      }
      ASSERT_EQ(staging.size(), came.size() - used);
      ASSERT_EQ(std::memcmp(staging.unused().data(), came.data() + used, staging.size()), 0);
    }
  }
}

TEST(Staging, GrowsOnlyWhereItIsFullAndShrinksAgain) {
  Staging staging;
  staging.reset();
  EXPECT_EQ(staging.room().size(), Staging::kUsualBytes);
  std::uint8_t next = 0;
  fill(staging, Staging::kUsualBytes, next);
  EXPECT_TRUE(staging.room().empty());
  staging.use(1);
  staging.make_room();
  EXPECT_EQ(staging.room().size(), 1U) << "what was used is room enough";
  fill(staging, 1, next);
  staging.make_room();
  EXPECT_EQ(staging.room().size(), Staging::kUsualBytes) << "twice the memory";
  EXPECT_EQ(staging.unused().front(), std::byte{1});
  staging.reset();
  EXPECT_EQ(staging.size(), 0U);
  EXPECT_EQ(staging.room().size(), Staging::kUsualBytes);
}

/// Frames of a header and so many bytes, of which the first waits.
class StagingOfFrames : public testing::Test {
 protected:
  static constexpr std::size_t kPayload = 60, kFrame = kHeaderBytes + kPayload;
  StagingOfFrames() { staging_.reset(); }
  void add(std::size_t bytes) { fill(staging_, bytes, next_); }
  /// The place in all that was ever added at which the header to scan begins, modulo 256; -1 where none is.
  int scans() {
    const auto header = staging_.to_scan();
    if (!header) return -1;
    staging_.scanned(kFrame);
    return std::to_integer<int>(header->front());
  }

  Staging staging_;
  std::uint8_t next_ = 0;
};

TEST_F(StagingOfFrames, EachHeaderBehindTheOneThatWaitsIsScannedOnceAllOfItIsThere) {
  add(kFrame + kHeaderBytes - 1);
  staging_.use(kHeaderBytes);
  staging_.scan_behind(kPayload);
  EXPECT_EQ(scans(), -1) << "a byte of it is missing";
  staging_.make_room();
  add(1);
  EXPECT_EQ(scans(), static_cast<int>(kFrame));
  EXPECT_EQ(scans(), -1);
  add(kPayload + kHeaderBytes);
  staging_.move_to_front();
  EXPECT_EQ(scans(), static_cast<int>(2 * kFrame) % 256);
}

TEST_F(StagingOfFrames, WhatWasScannedIsNotScannedAgainWhenTheNextFrameWaits) {
  add(3 * kFrame);
  staging_.use(kHeaderBytes);
  staging_.scan_behind(kPayload);
  EXPECT_EQ(scans(), static_cast<int>(kFrame));
  // The first frame's turn comes, and then the second one waits.
  staging_.use(kPayload + kHeaderBytes);
  staging_.move_to_front();
  staging_.scan_behind(kPayload);
  EXPECT_EQ(scans(), static_cast<int>(2 * kFrame) % 256);
  EXPECT_EQ(scans(), -1);
}

TEST_F(StagingOfFrames, TheScanGoesOnWhereTheFrameThatWaitsHasNotComeWhole) {
  for (const std::size_t of_payload : {std::size_t{0}, std::size_t{10}}) {
    staging_.reset();
    next_ = 0;
    add(kHeaderBytes + of_payload);
    staging_.use(kHeaderBytes);
    staging_.scan_behind(kPayload);
    if (staging_.size() == 0) staging_.reset();
    staging_.make_room();
    EXPECT_EQ(scans(), -1);
    add(kPayload - of_payload + kHeaderBytes);
    EXPECT_EQ(scans(), static_cast<int>(kFrame)) << of_payload;
    staging_.use(staging_.size());
    staging_.end_scan();
  }
}

TEST_F(StagingOfFrames, AFrameThatWaitsAfterTheScanHasEndedIsScannedFromItsOwnEnd) {
  add(2 * kFrame);
  staging_.use(kHeaderBytes);
  staging_.scan_behind(kPayload);
  EXPECT_EQ(scans(), static_cast<int>(kFrame));
  staging_.use(staging_.size());
  staging_.end_scan();
  staging_.reset();
  add(2 * kFrame);
  staging_.use(kHeaderBytes);
  staging_.scan_behind(kPayload);
  EXPECT_EQ(scans(), static_cast<int>(3 * kFrame) % 256);
}

}  // namespace
}  // namespace tombolo::transport::tcp
