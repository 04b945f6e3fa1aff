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
  const std::size_t own = static_cast<std::size_t>(shape.rank) * shape.count;
  std::vector<float> result(shape.received());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::size_t part = i / shape.count, within = i % shape.count;
    switch (shape.collective) {
      case Collective::kAllReduce:
        for (const auto& input : inputs) result[i] += input[i];
        break;
      case Collective::kReduce:
        for (const auto& input : inputs) result[i] += input[i];
        break;
      case Collective::kScatter:
        result[i] = inputs[0][own + i];
        break;
      case Collective::kReduceScatter:
        for (const auto& input : inputs) result[i] += input[own + i];
        break;
      case Collective::kBroadcast:
        result[i] = inputs[0][i];
        break;
      case Collective::kAllGather:
      case Collective::kGather:
        result[i] = inputs[part][within];
        break;
      case Collective::kAllToAll:
        result[i] = inputs[part][own + within];
        break;
      case Collective::kBarrier:
        break;
    }
  }
  return result;
}

TEST(CompareValues, EveryWrongElementIsCounted) {
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter, Collective::kBroadcast,
        Collective::kAllToAll, Collective::kReduce, Collective::kGather, Collective::kScatter})
    for (const int ranks : {1, 3, 8})
      for (const std::size_t count : {std::size_t{1}, std::size_t{17}}) {
        const bool root_gets = collective == Collective::kReduce || collective == Collective::kGather;
        const Shape shape{collective, count, root_gets ? 0 : ranks - 1, ranks};
        ASSERT_GT(shape.received(), 0U);
        std::vector<float> result = expected(shape);
        EXPECT_EQ(wrong_elements(shape, kRound, result.data()), 0U);
        for (float& element : result) {
          const float right = element;
          element += 1;
          EXPECT_EQ(wrong_elements(shape, kRound, result.data()), 1U);
          element = right;
        }
        if (count > 1) {
          EXPECT_NE(wrong_elements(shape, kRound + 1, result.data()), 0U) << "the result of another round";
        }
        poison(result.data(), result.size());
        EXPECT_EQ(wrong_elements(shape, kRound, result.data()), result.size());
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
