#include "trainer/model/stage_parameters.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tombolo::trainer {
namespace {

Shape shape_of(int layers) {
  Shape shape;
  shape.context = 16;
  shape.padded_vocabulary = 256;
  shape.layers = layers;
  shape.heads = 2;
  shape.width = 10;  // not a multiple of the arena's alignment
  return shape;
}

TEST(StageParameters, StagesTogetherHoldEveryParameterOnceBesidesTheCopy) {
  const Shape shape = shape_of(5);
  std::vector<int> holders(parameter_count(shape), 0);
  const int cuts[] = {0, 1, 3, 5};
  for (int stage = 0; stage < 3; ++stage) {
    const StageParameters parameters(shape, cuts[stage], cuts[stage + 1] - cuts[stage]);
    std::size_t end = 0;
    for (const Slice& slice : parameters.slices()) {
      EXPECT_EQ(slice.offset % 16, 0u);
      EXPECT_GE(slice.offset, end);
      end = slice.offset + slice.elements;
      for (std::size_t at = 0; at < slice.elements && !parameters.is_copy(slice); ++at)
        ++holders[slice.position + at];
    }
    EXPECT_LE(end, parameters.size());
    EXPECT_EQ(parameters.shares_embedding(), stage != 1);
  }
  for (int count : holders) ASSERT_EQ(count, 1);
}

TEST(StageParameters, APlainModelHasNoCopyOfTheEmbedding) {
  const StageParameters parameters(shape_of(2), 0, 2);
  EXPECT_FALSE(parameters.shares_embedding());
  EXPECT_FALSE(parameters.is_copy(parameters.find(Tensor::kTokenEmbedding)));
  EXPECT_THROW(static_cast<void>(parameters.find(Tensor::kQkvWeight, 2)), Error);
}

TEST(Buckets, CoverTheArenaFromItsEndInPiecesOfAtLeastTheGivenSize) {
  const StageParameters parameters(shape_of(6), 0, 6);
  for (std::size_t smallest : {std::size_t{1}, std::size_t{8000}, std::size_t{100000000}}) {
    const std::vector<Bucket> buckets = gradient_buckets(parameters, smallest);
    std::size_t end = parameters.size();
    for (std::size_t index = 0; index < buckets.size(); ++index) {
      EXPECT_EQ(buckets[index].end, end);
      EXPECT_LT(buckets[index].begin, end);
      const bool last = index + 1 == buckets.size();
      EXPECT_TRUE(last || (end - buckets[index].begin) * sizeof(float) >= smallest);
      end = buckets[index].begin;
    }
    EXPECT_EQ(end, 0u);
  }
  EXPECT_EQ(gradient_buckets(parameters, 1).size(), 7u);
  EXPECT_EQ(gradient_buckets(parameters, 100000000).size(), 1u);
}

TEST(Buckets, OfAMiddleStageEndAtItsFirstLayer) {
  const StageParameters parameters(shape_of(6), 2, 2);
  EXPECT_EQ(
      gradient_buckets(parameters, 1),
      (std::vector<Bucket>{{parameters.layer_begin(3), parameters.size()}, {0, parameters.layer_begin(3)}}));
}

}  // namespace
}  // namespace tombolo::trainer
