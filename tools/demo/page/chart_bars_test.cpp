#include <gtest/gtest.h>

#include "tools/cli/testing.h"
#include "tools/demo/page/charts.h"
#include "tools/demo/testing_report.h"

namespace tombolo::tools::demo {
namespace {

/// The width of the first bar after `tip`'s rectangle begins.
std::string bar_with(const std::string& drawing, const std::string& tip) {
  const auto end = drawing.find("<title>" + tip);
  if (end == std::string::npos) {
    ADD_FAILURE() << tip << " is not in " << drawing;
    return {};
  }
  const auto width = drawing.find("width=\"", drawing.rfind("<rect", end)) + 7;
  return drawing.substr(width, drawing.find('"', width) - width);
}

TEST(ChartBars, ATokensBarIsAsLongAsItsRunIsFast) {
  Report report = made_up_report();
  report.runs[0].tokens_per_second = 1000;
  report.runs[1].tokens_per_second = 2000;
  report.runs[2].tokens_per_second = 4000;
  const std::string drawing = draw_tokens(report);
  // 500 pixels are the 4000 tokens of the last mark.
  EXPECT_EQ(bar_with(drawing, "One communicator today: 1000 tokens/s"), "125.00");
  EXPECT_EQ(bar_with(drawing, "Holmes plan: 4000 tokens/s"), "500.00");
  EXPECT_MENTIONS(drawing, ">1000</text>");
  EXPECT_MENTIONS(drawing, ">2000  (2.00×)</text>");
  EXPECT_MENTIONS(drawing, "class=\"bar best\"><title>Holmes plan");
}

TEST(ChartBars, APredictionIsAMarkOnTheMeasuredBarsScale) {
  Report report = made_up_report();
  report.runs[0].measured_step_seconds = 0.4;
  report.runs[0].predicted.step_seconds = 0.5;
  const std::string drawing = draw_predictions(report);
  EXPECT_EQ(bar_with(drawing, "measured 400 ms"), "400.00");
  EXPECT_MENTIONS(drawing, "<rect x=\"748.00\"");  // 250 + 500, less half of the mark
  EXPECT_MENTIONS(drawing, ">400 ms, predicted +25 %</text>");
}

TEST(ChartBars, TrafficIsStackedByTheKindOfNic) {
  Report report = made_up_report();
  using topology::NicKind;
  report.runs[0].links = {{"A0", "e", "B0", "e", NicKind::kTcp, 0, 1e6},
                          {"A0", "e", "A1", "e", NicKind::kTcp, 0, 2e6},
                          {"A0", "f", "A1", "f", NicKind::kRoce, 0, 2e6}};
  report.runs[1].links.clear();
  const std::string drawing = draw_traffic(report);
  EXPECT_EQ(bar_with(drawing, "Ethernet: 3.00 MB per step"), "298.00");
  EXPECT_EQ(bar_with(drawing, "RoCE: 2.00 MB per step"), "198.00");
  EXPECT_MENTIONS(drawing, ">3.00 MB on Ethernet</text>");
  EXPECT_MENTIONS(drawing, ">0.00 MB on Ethernet</text>");
}

TEST(ChartBars, NothingMeasuredHasNoFiguresThatAreNone) {
  Report report = made_up_report();
  for (auto& run : report.runs) {
    run.tokens_per_second = run.measured_step_seconds = run.predicted.step_seconds = 0;
    run.links.clear();
  }
  for (const Report& each : {report, Report()})
    for (const std::string& drawing : {draw_tokens(each), draw_predictions(each), draw_traffic(each)}) {
      EXPECT_EQ(drawing.find("nan"), std::string::npos) << drawing;
      EXPECT_EQ(drawing.find("inf"), std::string::npos) << drawing;
      EXPECT_TRUE(drawing.ends_with("</svg>\n")) << drawing;
    }
}

}  // namespace
}  // namespace tombolo::tools::demo
