#include "planner/plan/layer_split.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "base/randomized_test.h"

namespace tombolo::planner {
namespace {

using Layers = std::vector<int>;

TEST(LayerSplit, GivesTheHolmesAuthorsTheirOwnSplits) {
  // Attained TFLOPS per GPU on InfiniBand and RoCE, as their paper reports them.
  EXPECT_EQ(split_by_speed(48, {197, 160}, {1, 1}, 1.0), (Layers{26, 22}));
  EXPECT_EQ(split_by_speed(30, {197, 160}, {1, 1}, 1.0), (Layers{16, 14}));
}

TEST(LayerSplit, EqualSpeedsGiveEqualLayers) {
  EXPECT_EQ(split_by_speed(8, {1e9, 1e9}, {1, 1}, 1.0), (Layers{4, 4}));
  EXPECT_EQ(split_by_speed(12, {2e9, 4e9}, {1, 2}, 1.0), (Layers{4, 4, 4}));
}

TEST(LayerSplit, SpeedsThatDifferByTheNoiseOfMeasuringGiveEqualLayers) {
  EXPECT_EQ(split_by_speed(4, {1e9, 1.01e9}, {1, 1}, 1.0), (Layers{2, 2}));
  EXPECT_EQ(split_by_speed(4, {1.01e9, 1e9}, {1, 1}, 1.0), (Layers{2, 2}));
  EXPECT_EQ(split_by_speed(8, {1e9, 1.1e9}, {1, 1}, 1.0), (Layers{3, 5}));
}

TEST(LayerSplit, AlphaFavoursTheGroupsBeforeTheLast) {
  EXPECT_EQ(split_by_speed(48, {197, 160}, {1, 1}, 1.05), (Layers{27, 21}));
}

TEST(LayerSplit, EveryStageGetsALayerAndNoneIsLost) {
  std::mt19937 random(test_seed());
  for (int round = 0; round < 500; ++round) {
    std::vector<double> speeds;
    std::vector<int> stages;
    const int groups = std::uniform_int_distribution(1, 5)(random);
    for (int i = 0; i < groups; ++i) {
      speeds.push_back(std::uniform_real_distribution(0.01, 100.0)(random));
      stages.push_back(std::uniform_int_distribution(1, 4)(random));
    }
    const int least = std::accumulate(stages.begin(), stages.end(), 0);
    const int layers = least + std::uniform_int_distribution(0, 60)(random);
    const double alpha = std::uniform_real_distribution(0.5, 1.5)(random);
    const Layers split = split_by_speed(layers, speeds, stages, alpha);
    ASSERT_EQ(static_cast<int>(split.size()), least);
    EXPECT_EQ(std::accumulate(split.begin(), split.end(), 0), layers);
    for (const int count : split) EXPECT_GE(count, 1);
  }
}

TEST(LayerSplit, StagesTileTheLayers) {
  const auto stages = to_stages({3, 1, 4});
  ASSERT_EQ(stages.size(), 3u);
  EXPECT_EQ(stages[2].first_layer, 4);
  EXPECT_EQ(stages[2].layers, 4);
}

TEST(NearestSplit, IsTheSplitWhereTheFrameworkCanSayIt) {
  const std::vector<int> layers{7, 5, 9, 3};
  EXPECT_EQ(nearest_split(layers, traits(Framework::kMegatron)), layers);
  EXPECT_EQ(nearest_split({8}, traits(Framework::kDeepSpeed)), std::vector{8});
  EXPECT_EQ(nearest_split({9, 3}, traits(Framework::kTorchTitan)), (std::vector{9, 3}));
  EXPECT_EQ(nearest_split({5, 7, 7, 4}, traits(Framework::kTorchTitan)), (std::vector{5, 7, 7, 4}));
}

TEST(NearestSplit, HasEqualStagesOrFewerLayersAtTheEnds) {
  EXPECT_EQ(nearest_split({7, 5, 9, 3}, traits(Framework::kDeepSpeed)), (std::vector{6, 6, 6, 6}));
  EXPECT_EQ(nearest_split({7, 5, 9, 2}, traits(Framework::kDeepSpeed)), (std::vector{7, 5, 9, 2}))
      << "nothing that it can say divides";
  EXPECT_EQ(nearest_split({7, 5, 9, 3}, traits(Framework::kTorchTitan)), (std::vector{7, 7, 7, 3}));
  EXPECT_EQ(nearest_split({1, 1, 20}, traits(Framework::kTorchTitan)), (std::vector{2, 10, 10}));
}

}  // namespace
}  // namespace tombolo::planner
