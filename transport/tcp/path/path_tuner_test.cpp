#include "transport/tcp/path/path_tuner.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace tombolo::transport::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(ThePathsTreatment, OnAShortPathAcknowledgementsComeInPairsAndOnALongOneMessagesAreCopied) {
  const PathTreatment near = treatment_of(milliseconds(4), 1e9, 64 * kMiB);
  EXPECT_TRUE(near.acks_in_pairs);
  EXPECT_EQ(near.copies, 0U);
  const PathTreatment far = treatment_of(milliseconds(5), 1e9, 64 * kMiB);
  EXPECT_FALSE(far.acks_in_pairs);
  EXPECT_EQ(far.copies, 10'000'000 + 16 * kMiB) << "twice a round trip's bytes, and room for a request";
  EXPECT_EQ(treatment_of(milliseconds(5), 0, 64 * kMiB).copies, 12'500'000 + 16 * kMiB) << "10 Gbit/s";
  EXPECT_EQ(treatment_of(seconds(1), 1e9, 64 * kMiB).copies, 64 * kMiB);
}

/// One stream over one path, held back by its window all the time.
class PathOfOneStream : public testing::Test {
 protected:
  /// A second passes in which so many bytes go. Returns how many streams the path should get more.
  std::size_t second(std::uint64_t bytes, Duration round_trip = milliseconds(20), std::size_t room = 64) {
    now_ += seconds(1);
    counters_.bytes += bytes;
    counters_.busy_us += 1'000'000;
    counters_.held_us += 900'000;
    counters_.sent += bytes / 1000;
    counters_.round_trip = counters_.shortest = round_trip;
    tuner_.begin_look(1, now_);
    tuner_.note_stream(0, 0, counters_);
    return tuner_.more_streams(0, 1e9, room);
  }
  std::size_t in_ten_seconds(Duration round_trip, std::size_t room = 64) {
    std::size_t most = 0;
    for (int i = 0; i < 10; ++i) most = std::max(most, second(10'000'000, round_trip, room));
    return most;
  }

  TimePoint now_ = TimePoint{} + seconds(1000);
  TcpCounters counters_;
  PathTuner tuner_;
};

TEST_F(PathOfOneStream, GetsMoreWhereItsWindowHoldsItBackOnALongPath) {
  EXPECT_GT(in_ten_seconds(milliseconds(20)), 0U);
}

TEST_F(PathOfOneStream, GetsNoneOnAShortPath) {
  EXPECT_EQ(in_ten_seconds(std::chrono::microseconds(999)), 0U);
}

TEST_F(PathOfOneStream, GetsNoMoreThanThereIsRoomFor) {
  EXPECT_EQ(in_ten_seconds(milliseconds(20), 0), 0U);
}

TEST_F(PathOfOneStream, GetsNoneWhereNothingCouldBeRead) {
  for (int i = 0; i < 10; ++i) {
    now_ += seconds(1);
    tuner_.begin_look(1, now_);
    tuner_.note_stream(0, 0, std::nullopt);
    EXPECT_EQ(tuner_.streams(0), 1U);
    EXPECT_EQ(tuner_.more_streams(0, 1e9, 64), 0U);
  }
}

TEST_F(PathOfOneStream, GetsNoneWhileAnotherIsMissing) {
  for (int i = 0; i < 10; ++i) {
    now_ += seconds(1);
    counters_.bytes += 10'000'000;
    counters_.busy_us += 1'000'000;
    counters_.held_us += 900'000;
    counters_.round_trip = counters_.shortest = milliseconds(20);
    tuner_.begin_look(1, now_);
    tuner_.note_stream(0, 0, counters_);
    tuner_.note_missing(0);
    EXPECT_EQ(tuner_.more_streams(0, 1e9, 64), 0U);
  }
}

TEST(PaceOfAStream, IsToldOnceAndAgainWhenTheNumberOfStreamsChanges) {
  const auto nic = std::make_shared<NicPacing>(1000);
  PathTuner tuner;
  EXPECT_EQ(tuner.new_pace(0, nic), 1000U);
  EXPECT_EQ(tuner.new_pace(0, nic), 1000U) << "the kernel has not taken it";
  tuner.paced(0, 1000);
  EXPECT_EQ(tuner.new_pace(0, nic), std::nullopt);
  EXPECT_EQ(tuner.new_pace(1, nic), 500U);
  EXPECT_EQ(tuner.new_pace(0, nic), 500U);
  tuner.lost(1);
  EXPECT_EQ(tuner.new_pace(0, nic), std::nullopt) << "it has the whole rate still";
}

}  // namespace
}  // namespace tombolo::transport::tcp
