#include "compute/product_speed.h"

#include <gtest/gtest.h>

namespace tombolo::compute {
namespace {

TEST(ProductSpeed, SaysWhichKernelsAndWhatTheyAttain) {
  const ProductSpeed speed{InstructionSet::kAvx2, InstructionSet::kAvx512, 62.04e9, 118.4e9};
  EXPECT_EQ(speed.text(), "avx2 kernels, 62 GFLOP/s on one core (52 % of its units' 118)");
  const ProductSpeed half{InstructionSet::kAvx512, InstructionSet::kAvx512, 200e9, 236e9,
                          Precision::kBfloat16};
  EXPECT_EQ(half.text(), "avx512 kernels for bf16, 200 GFLOP/s on one core (85 % of its units' 236)");
}

TEST(ProductSpeed, IsMeasured) {
  const ProductSpeed speed = measure_products(0.002);
  EXPECT_EQ(speed.used, instruction_set());
  EXPECT_GE(speed.most, speed.used);
  EXPECT_GT(speed.attained, 0);
  EXPECT_GT(speed.peak, 0);
}

}  // namespace
}  // namespace tombolo::compute
