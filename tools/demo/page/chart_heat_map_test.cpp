#include <gtest/gtest.h>

#include "tools/cli/testing.h"
#include "tools/demo/page/charts.h"
#include "tools/demo/testing_report.h"

namespace tombolo::tools::demo {
namespace {

std::size_t times_in(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(ChartHeatMap, ShowsEveryPairOfHostsOnce) {
  const Report report = made_up_report();
  const std::string drawing = draw_heat_map(report, "eth0", RateScale(11.9e6, 1.9e9));
  EXPECT_EQ(times_in(drawing, ">95.2 Mbit/s</text>"), 12U);
  EXPECT_EQ(times_in(drawing, "class=\"heat0\""), 12U);
  EXPECT_EQ(times_in(drawing, "class=\"no-link\""), 4U) << "a host and itself";
  EXPECT_MENTIONS(drawing, "<title>A0 to B1: 95.2 Mbit/s, 110 us one way</title>");
}

TEST(ChartHeatMap, TellsHostsThatHaveNoRoute) {
  const std::string drawing = draw_heat_map(made_up_report(), "fast0", RateScale(11.9e6, 1.9e9));
  EXPECT_EQ(times_in(drawing, ">no route</text>"), 8U) << "from one cluster to the other";
  EXPECT_EQ(times_in(drawing, "class=\"heat6\""), 4U);
}

TEST(ChartHeatMap, OfANicThatNobodyHasHasNoRoutes) {
  const std::string drawing = draw_heat_map(made_up_report(), "eth9", RateScale(0, 0));
  EXPECT_EQ(times_in(drawing, ">no route</text>"), 12U);
  EXPECT_TRUE(draw_heat_map(Report(), "eth0", RateScale(0, 0)).ends_with("</svg>\n"));
}

}  // namespace
}  // namespace tombolo::tools::demo
