#include <gtest/gtest.h>

#include "tools/cli/testing.h"
#include "tools/demo/page/charts.h"
#include "tools/demo/testing_report.h"

namespace tombolo::tools::demo {
namespace {

TEST(ChartLoss, GoesFromTheFirstStepToTheLast) {
  Report report;
  report.loss = {5, 4, 2.5, 2};
  const std::string drawing = draw_loss(report);
  // 774 pixels are 4 steps, from x = 56; 250 are a loss of 5, from y = 264 upwards.
  EXPECT_MENTIONS(drawing, "points=\"56.0,14.0 249.5,64.0 443.0,139.0 636.5,164.0 \"");
  EXPECT_MENTIONS(drawing, "<title>step 0: loss 5.000</title>");
  EXPECT_MENTIONS(drawing, "<title>step 3: loss 2.000</title>");
}

TEST(ChartLoss, OfOneStepIsOnePoint) {
  Report report;
  report.loss = {5};
  EXPECT_MENTIONS(draw_loss(report), "points=\"56.0,14.0 \"");
}

TEST(ChartLoss, OfNoneIsAnEmptyDrawing) {
  const std::string drawing = draw_loss(Report());
  EXPECT_TRUE(drawing.starts_with("<svg ")) << drawing;
  EXPECT_EQ(drawing.find("<line"), std::string::npos) << drawing;
  Report zero;
  zero.loss = {0, 0};
  EXPECT_EQ(draw_loss(zero).find("nan"), std::string::npos);
}

}  // namespace
}  // namespace tombolo::tools::demo
