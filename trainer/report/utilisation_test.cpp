#include "trainer/report/utilisation.h"

#include <gtest/gtest.h>

namespace tombolo::trainer {
namespace {

TEST(Utilisation, CountsGpt2AsItsFormulaSays) {
  Shape shape;
  shape.context = 1024;
  shape.vocabulary = 50257;
  shape.padded_vocabulary = 50304;
  shape.layers = 12;
  shape.heads = 12;
  shape.width = 768;
  // 124,475,904 parameters with the padded vocabulary.
  ASSERT_EQ(parameter_count(shape), 124475904U);
  EXPECT_DOUBLE_EQ(training_flops_per_token(shape), 6.0 * 124475904 + 6.0 * 12 * 768 * 1024);
  const double peak = 989.5e12;
  EXPECT_NEAR(utilisation(shape, 500000, peak), 500000 * 803477504.0 / peak, 1e-4);
}

TEST(Utilisation, OfAnUnknownDeviceIsNothing) {
  EXPECT_EQ(utilisation({}, 1000, 0), 0);
}

}  // namespace
}  // namespace tombolo::trainer
