#include <algorithm>

#include "tools/demo/page/charts.h"
#include "tools/reports/svg.h"

namespace tombolo::tools::demo {
namespace {

constexpr double kLossWidth = 900, kLossHeight = 300, kLossLeft = 56, kLossRight = 70, kLossTop = 14,
                 kLossBottom = 36;

}  // namespace

std::string draw_loss(const Report& report) {
  Svg svg(kLossWidth, kLossHeight, "Loss by step");
  if (report.loss.empty()) return svg.finish();
  double top = *std::max_element(report.loss.begin(), report.loss.end());
  auto values = ticks(top, 5);
  auto steps = ticks(static_cast<double>(report.loss.size()), 8);
  double across = (kLossWidth - kLossLeft - kLossRight) / steps.back();
  double up = (kLossHeight - kLossTop - kLossBottom) / values.back();
  double floor = kLossHeight - kLossBottom;
  for (double value : values) {
    svg.line(kLossLeft, floor - value * up, kLossWidth - kLossRight, floor - value * up,
             value == 0 ? "axis" : "grid");
    svg.text(kLossLeft - 8, floor - value * up + 4, short_number(value), "tick end");
  }
  for (double step : steps)
    svg.text(kLossLeft + step * across, floor + 18, short_number(step), "tick middle");
  svg.text(kLossWidth - kLossRight + 18, floor + 18, "step", "tick");
  std::vector<std::pair<double, double>> points;
  for (std::size_t i = 0; i < report.loss.size(); ++i) {
    points.emplace_back(kLossLeft + static_cast<double>(i) * across, floor - report.loss[i] * up);
  }
  svg.polyline(points, "curve");
  auto mark = [&](std::size_t step, double dx, double dy, const char* anchor) {
    auto tip = fmt::format("step {}: loss {:.3f}", step, report.loss[step]);
    svg.circle(points[step].first, points[step].second, 4, "dot", tip);
    svg.text(points[step].first + dx, points[step].second + dy, fmt::format("{:.2f}", report.loss[step]),
             anchor);
  };
  mark(0, 10, 4, "value");
  mark(points.size() - 1, 10, 4, "value");
  return svg.finish();
}

}  // namespace tombolo::tools::demo
