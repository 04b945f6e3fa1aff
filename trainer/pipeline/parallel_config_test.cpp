#include "trainer/pipeline/parallel_config.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tombolo::trainer {
namespace {

Shape shape_with_layers(int layers) {
  Shape shape;
  shape.context = 16;
  shape.padded_vocabulary = 256;
  shape.layers = layers;
  shape.heads = 2;
  shape.width = 10;
  return shape;
}

TEST(ParallelConfig, LayersAreSpreadEvenlyAndTheFirstStagesTakeTheRemainder) {
  const ParallelConfig parallel = even_parallel_config(shape_with_layers(8), 3, 2, 12, 0);
  ASSERT_EQ(parallel.stages.size(), 3u);
  EXPECT_EQ(parallel.stages[0].layers, 3);
  EXPECT_EQ(parallel.stages[1].layers, 3);
  EXPECT_EQ(parallel.stages[2].layers, 2);
  EXPECT_EQ(parallel.stages[2].first_layer, 6);
  EXPECT_EQ(parallel.micro_batch, 2);
  EXPECT_EQ(parallel.micro_batches(), 3);
  EXPECT_EQ(parallel.rank_at(2, 1), 5);
}

TEST(ParallelConfig, WhatCannotBeRunIsRefused) {
  EXPECT_THROW(even_parallel_config(shape_with_layers(2), 3, 1, 8, 0), Error);
  EXPECT_THROW(even_parallel_config(shape_with_layers(2), 1, 3, 8, 0), Error);
  EXPECT_THROW(even_parallel_config(shape_with_layers(2), 2, 1, 8, 3), Error);
  EXPECT_THROW(even_parallel_config(shape_with_layers(2), 0, 1, 8, 1), Error);
  ParallelConfig parallel = even_parallel_config(shape_with_layers(4), 2, 2, 8, 1);
  parallel.coordinates[3] = parallel.coordinates[0];
  EXPECT_THROW(parallel.check(shape_with_layers(4)), Error);
  parallel = even_parallel_config(shape_with_layers(4), 2, 2, 8, 1);
  parallel.coordinates.pop_back();
  EXPECT_THROW(parallel.check(shape_with_layers(4)), Error);
  parallel = even_parallel_config(shape_with_layers(4), 2, 2, 8, 1);
  EXPECT_THROW(parallel.check(shape_with_layers(5)), Error);
  parallel.stages[1].first_layer = 1;
  EXPECT_THROW(parallel.check(shape_with_layers(4)), Error);
}

}  // namespace
}  // namespace tombolo::trainer
