#include "collectives/stuck/rank_report.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "base/randomized_test.h"
#include "collectives/stuck/operation_ring.h"

namespace tombolo::collectives {
namespace {

RankReport example() {
  RankReport report{3, "b1", 4711, 1'700'000'000'000'000'000, {}};
  ReportedCommunicator one;
  one.name = "comm/0";
  one.ranks = {0, 1, 2, 3};
  one.doing = "all_reduce #7";
  one.stuck_seconds = 31.5;
  one.operations.push_back({6, "barrier", "", "", 0, -1, false, OperationState::kCompleted, 12});
  one.operations.push_back({7, "all_reduce", "float", "sum", 1024, -1, false, OperationState::kStarted, 13});
  one.waits.push_back({7, 2, WaitKind::kReceive, 1, 3, 12, 512});
  one.links.push_back({2, 1, "tcp", "eth0", "eth1", "10.0.0.4:1234", 5, 4, 2, 9});
  report.communicators.push_back(one);
  return report;
}

TEST(RankReport, IsReadAsItWasWritten) {
  const RankReport report = example();
  EXPECT_EQ(RankReport::decode(report.encode(), 3), report);
  ASSERT_NE(report.communicators[0].current(), nullptr);
  EXPECT_EQ(report.communicators[0].current()->text(), "all_reduce #7 (1024 float sum)");
}

TEST(RankReport, OfAnotherRankIsRefused) {
  try {
    RankReport::decode(example().encode(), 4);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::kRemote);
    EXPECT_NE(std::string_view(error.what()).find("rank 4's report is of rank 3"), std::string_view::npos);
  }
}

TEST(RankReport, ThatIsDamagedIsReadOrRefusedAndNothingElse) {
  std::mt19937_64 random(test_seed(11));
  const auto whole = example().encode();
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    auto bytes = whole;
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<std::byte>(random() % 128);
    if (random() % 2 == 0) bytes.resize(random() % bytes.size());
    try {
      RankReport::decode(bytes, 3);
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::kRemote);
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(OperationRing, KeepsTheLastOnesInOrder) {
  OperationRing ring;
  const auto kept = [&](std::uint64_t newest) {
    std::vector<std::uint64_t> numbers;
    ring.for_each(newest, [&](const OperationRecord& one) { numbers.push_back(one.number); });
    return numbers;
  };
  EXPECT_TRUE(kept(0).empty());
  for (std::uint64_t number = 1; number <= 100; ++number) {
    OperationRecord record;
    record.number = number;
    ring.start(record);
    if (number != 98) ring.complete(number);
    if (number == 3) {
      EXPECT_EQ(kept(3), (std::vector<std::uint64_t>{1, 2, 3}));
    }
  }
  ring.complete(1);  // of which nothing is left
  const auto last = kept(100);
  ASSERT_EQ(last.size(), OperationRing::kKept);
  EXPECT_EQ(last.front(), 37u);
  EXPECT_EQ(last.back(), 100u);
  ring.for_each(100, [](const OperationRecord& one) { EXPECT_EQ(one.completed, one.number != 98); });
}

}  // namespace
}  // namespace tombolo::collectives
