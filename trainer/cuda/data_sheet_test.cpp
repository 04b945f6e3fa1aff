#include "trainer/cuda/data_sheet.h"

#include <gtest/gtest.h>

namespace tombolo::trainer::cuda {
namespace {

TEST(DataSheet, KnowsAGpuByTheNameThatCudaGivesIt) {
  EXPECT_EQ(data_sheet_peak("NVIDIA H100 80GB HBM3", Element::kBfloat16), 989.4e12);
  EXPECT_EQ(data_sheet_peak("NVIDIA H100 PCIe", Element::kBfloat16), 756e12);
  EXPECT_EQ(data_sheet_peak("NVIDIA A100-SXM4-80GB", Element::kFloat32), 19.5e12);
  EXPECT_EQ(data_sheet_peak("NVIDIA A10", Element::kBfloat16), 125e12);
}

TEST(DataSheet, KnowsNothingOfAGpuWhoseNameOnlyBeginsLikeOne) {
  EXPECT_EQ(data_sheet_peak("NVIDIA L40", Element::kBfloat16), 0);
  EXPECT_EQ(data_sheet_peak("NVIDIA A1000", Element::kBfloat16), 0);
  EXPECT_EQ(data_sheet_peak("", Element::kFloat32), 0);
}

}  // namespace
}  // namespace tombolo::trainer::cuda
