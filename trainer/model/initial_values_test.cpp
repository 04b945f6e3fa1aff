#include "trainer/model/initial_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tombolo::trainer {
namespace {

TEST(InitialValues, HaveGpt2sSpreadAndDoNotDependOnTheStage) {
  Shape shape;
  shape.context = 8;
  shape.padded_vocabulary = 256;
  shape.layers = 3;
  shape.heads = 2;
  shape.width = 64;
  const StageParameters whole(shape, 0, 3), back(shape, 2, 1);
  std::vector<float> all(whole.size()), part(back.size());
  initialize(shape, 3, whole, all);
  initialize(shape, 3, back, part);
  for (const Slice& slice : back.slices()) {
    const Slice& same = whole.find(slice.tensor, slice.layer);
    for (std::size_t at = 0; at < slice.elements; ++at)
      ASSERT_EQ(part[slice.offset + at], all[same.offset + at]);
  }
  auto deviation = [&](Tensor tensor) {
    const Slice& slice = whole.find(tensor, 1);
    double squares = 0;
    for (std::size_t at = 0; at < slice.elements; ++at) squares += std::pow(all[slice.offset + at], 2.0);
    return std::sqrt(squares / static_cast<double>(slice.elements));
  };
  EXPECT_NEAR(deviation(Tensor::kMlpWeight), 0.02, 0.0005);
  EXPECT_NEAR(deviation(Tensor::kMlpProjectionWeight), 0.02 / std::sqrt(6.0), 0.0003);
  EXPECT_EQ(deviation(Tensor::kNorm2Weight), 1.0);
  EXPECT_EQ(deviation(Tensor::kQkvBias), 0.0);
  std::vector<float> other(whole.size());
  initialize(shape, 4, whole, other);
  EXPECT_NE(all, other);
}

}  // namespace
}  // namespace tombolo::trainer
