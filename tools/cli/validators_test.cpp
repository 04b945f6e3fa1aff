#include "tools/cli/validators.h"

#include <gtest/gtest.h>

namespace tombolo::tools {
namespace {

TEST(AboveZero, TakesNumbersAboveZeroAndNothingElse) {
  for (const char* good : {"1", "0.001", "1e-9", "1e300"}) EXPECT_EQ(above_zero(good), "") << good;
  for (const char* bad : {"0", "-1", "", "1x", "x", " 1", "nan", "0.0"})
    EXPECT_EQ(above_zero(bad), std::string("expected a number > 0, found ") + bad);
}

}  // namespace
}  // namespace tombolo::tools
