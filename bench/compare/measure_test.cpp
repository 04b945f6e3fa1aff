// That wrong results are found, and that ranks meet: everything else in measure.h runs in compare_test.py.
#include "bench/compare/measure.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

namespace compare {
namespace {

constexpr std::uint32_t kRound = 3;

/// What a rank has to receive, computed from the inputs of all ranks by the definition of the collective.
std::vector<float> expected(const Shape& shape) {
  std::vector<std::vector<float>> inputs;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    Shape sender = shape;
    sender.rank = rank;
    inputs.emplace_back(sender.sent());
    fill(sender, kRound, inputs.back().data());
  }
  const Part own = shape.part(shape.rank);
  std::vector<float> result(shape.received());
  const auto add = [&](const std::vector<float>& input, std::size_t begin) {
    for (std::size_t i = 0; i < result.size(); ++i) result[i] += input[begin + i];
  };
  const auto copy = [&](Part to, const std::vector<float>& input, std::size_t begin) {
    for (std::size_t i = 0; i < to.count; ++i) result.at(to.begin + i) = input.at(begin + i);
  };
  switch (shape.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      for (const auto& input : inputs) add(input, 0);
      break;
    case Collective::kReduceScatter:
      for (const auto& input : inputs) add(input, own.begin);
      break;
    case Collective::kScatter:
      copy({0, own.count}, inputs[0], own.begin);
      break;
    case Collective::kBroadcast:
      copy({0, shape.count}, inputs[0], 0);
      break;
    case Collective::kAllGather:
    case Collective::kGather:
      for (int from = 0; from < shape.ranks; ++from)
        copy(shape.part(from), inputs[static_cast<std::size_t>(from)], 0);
      break;
    case Collective::kAllToAll:
      for (int from = 0; from < shape.ranks; ++from)
        copy(shape.exchanged(shape.rank, from), inputs[static_cast<std::size_t>(from)],
             shape.exchanged(from, shape.rank).begin);
      break;
    case Collective::kBarrier:
      break;
  }
  return result;
}

void expect_every_wrong_element_to_be_counted(const Shape& shape) {
  ASSERT_GT(shape.received(), 0U);
  std::vector<float> result = expected(shape);
  EXPECT_EQ(wrong_elements(shape, kRound, result.data()), 0U);
  for (float& element : result) {
    const float right = element;
    element += 1;
    EXPECT_EQ(wrong_elements(shape, kRound, result.data()), 1U);
    element = right;
  }
  if (shape.count > 1) {
    EXPECT_NE(wrong_elements(shape, kRound + 1, result.data()), 0U) << "the result of another round";
  }
  poison(result.data(), result.size());
  EXPECT_EQ(wrong_elements(shape, kRound, result.data()), result.size());
}

TEST(CompareValues, EveryWrongElementIsCounted) {
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter, Collective::kBroadcast,
        Collective::kAllToAll, Collective::kReduce, Collective::kGather, Collective::kScatter})
    for (const int ranks : {1, 3, 8})
      for (const std::size_t count : {std::size_t{1}, std::size_t{17}}) {
        const bool root_gets = collective == Collective::kReduce || collective == Collective::kGather;
        Shape shape{collective, count, root_gets ? 0 : ranks - 1, ranks};
        expect_every_wrong_element_to_be_counted(shape);
        shape.uneven = shape.parted();
        expect_every_wrong_element_to_be_counted(shape);
      }
}

TEST(CompareValues, UnevenPartsAdjoinEachOtherAndGrow) {
  for (const int ranks : {1, 3, 8})
    for (const std::size_t count : {std::size_t{1}, std::size_t{17}, std::size_t{1000}}) {
      const Shape shape{Collective::kAllGather, count, 0, ranks, true};
      std::size_t begin = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Part part = shape.part(rank);
        EXPECT_EQ(part.begin, begin);
        const double wanted = 2.0 * static_cast<double>(count) * (rank + 1) / (ranks + 1);
        EXPECT_NEAR(static_cast<double>(part.count), wanted, 1.0);
        begin += part.count;
      }
      EXPECT_EQ(begin, shape.all());
    }
}

TEST(CompareValues, BothRanksNameAsMuchForWhatTheyExchange) {
  for (const int ranks : {1, 3, 8})
    for (const bool uneven : {false, true}) {
      const Shape shape{Collective::kAllToAll, 17, 0, ranks, uneven};
      for (int one = 0; one < ranks; ++one) {
        std::size_t begin = 0;
        for (int other = 0; other < ranks; ++other) {
          const Part part = shape.exchanged(one, other);
          EXPECT_EQ(part.begin, begin);
          EXPECT_EQ(part.count, shape.exchanged(other, one).count);
          begin += part.count;
        }
        EXPECT_EQ(begin, shape.all());
      }
    }
}

class Meetings : public testing::TestWithParam<Waiting> {};

TEST_P(Meetings, NobodyPassesBeforeAllHaveCome) {
  constexpr int kRanks = 4, kRounds = 200;
  const std::string file = std::filesystem::temp_directory_path() / ("meeting-" + std::to_string(::getpid()));
  std::atomic<int> came = 0, early = 0;
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < kRanks; ++rank)
    ranks.emplace_back([&, rank] {
      Meeting meeting(file, rank, kRanks, GetParam());
      for (int round = 1; round <= kRounds; ++round) {
        ++came;
        meeting.wait();
        if (came < round * kRanks) ++early;
        if (meeting.largest(rank * round) != (kRanks - 1) * round) ++early;
      }
    });
  ranks.clear();
  std::filesystem::remove(file);
  EXPECT_EQ(early, 0);
}

INSTANTIATE_TEST_SUITE_P(Compare, Meetings,
                         testing::Values(Waiting::kSpins, Waiting::kYields, Waiting::kSleeps));

}  // namespace
}  // namespace compare
