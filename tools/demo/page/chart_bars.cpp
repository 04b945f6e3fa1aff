#include <algorithm>
#include <array>
#include <map>

#include "base/units.h"
#include "tools/demo/page/charts.h"
#include "tools/reports/html.h"
#include "tools/reports/svg.h"

namespace tombolo::tools::demo {
namespace {

constexpr double kBarsWidth = 900, kBarsLeft = 250, kBarsRight = 150, kBarsTop = 10, kBarsRow = 46,
                 kBarsBar = 22;
constexpr double kBarsPlot = kBarsWidth - kBarsLeft - kBarsRight;

struct Frame {
  double height = 0;
  double scale = 1;  // pixels per unit
};

/// Draws grid lines, the axis and the names of the runs.
Frame frame(Svg& svg, const Report& report, double top_value, const std::string& unit) {
  Frame out;
  double bottom = kBarsTop + kBarsRow * static_cast<double>(report.runs.size());
  out.height = bottom + 34;
  auto marks = ticks(top_value, 5);
  out.scale = kBarsPlot / marks.back();
  for (double mark : marks) {
    double x = kBarsLeft + mark * out.scale;
    svg.line(x, kBarsTop, x, bottom, mark == 0 ? "axis" : "grid");
    svg.text(x, bottom + 16, short_number(mark), "tick middle");
  }
  svg.text(kBarsLeft + kBarsPlot + 30, bottom + 16, unit, "tick");
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    double y = kBarsTop + kBarsRow * static_cast<double>(i) + kBarsRow / 2;
    svg.text(kBarsLeft - 12, y + 4, report.runs[i].title, "name end");
  }
  return out;
}

double svg_height(const Report& report) {
  return kBarsTop + kBarsRow * static_cast<double>(report.runs.size()) + 34;
}

double bar_y(std::size_t index) {
  return kBarsTop + kBarsRow * static_cast<double>(index) + (kBarsRow - kBarsBar) / 2;
}

std::string bar_class(std::size_t index) {
  return index == 2 ? "bar best" : "bar";
}

}  // namespace

std::string draw_tokens(const Report& report) {
  double top = 0;
  for (const auto& run : report.runs) top = std::max(top, run.tokens_per_second);
  Svg svg(kBarsWidth, svg_height(report), "Tokens per second of the three runs");
  Frame axes = frame(svg, report, top, "tokens/s");
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    const auto& run = report.runs[i];
    double width = run.tokens_per_second * axes.scale;
    svg.rectangle(kBarsLeft, bar_y(i), width, kBarsBar, bar_class(i),
                  fmt::format("{}: {:.0f} tokens/s", run.title, run.tokens_per_second), 3);
    double base = report.runs.front().tokens_per_second;
    std::string times = i == 0 || base <= 0 ? "" : fmt::format("  ({:.2f}×)", run.tokens_per_second / base);
    svg.text(kBarsLeft + width + 8, bar_y(i) + 16, fmt::format("{:.0f}{}", run.tokens_per_second, times),
             "value");
  }
  return svg.finish();
}

std::string draw_predictions(const Report& report) {
  double top = 0;
  for (const auto& run : report.runs) {
    top = std::max({top, run.measured_step_seconds, run.predicted.step_seconds});
  }
  Svg svg(kBarsWidth, svg_height(report), "Step time, predicted and measured");
  Frame axes = frame(svg, report, top * 1e3, "ms");
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    const auto& run = report.runs[i];
    double measured = run.measured_step_seconds * 1e3 * axes.scale;
    double predicted = run.predicted.step_seconds * 1e3 * axes.scale;
    svg.rectangle(kBarsLeft, bar_y(i), measured, kBarsBar, bar_class(i),
                  fmt::format("measured {}", format_seconds(run.measured_step_seconds)), 3);
    svg.rectangle(kBarsLeft + predicted - 2, bar_y(i) - 6, 4, kBarsBar + 12, "mark",
                  fmt::format("predicted {}", format_seconds(run.predicted.step_seconds)), 2);
    svg.text(
        kBarsLeft + std::max(measured, predicted) + 10, bar_y(i) + 16,
        fmt::format("{:.0f} ms, predicted {}", run.measured_step_seconds * 1e3, run.prediction_error_text()),
        "value");
  }
  return svg.finish();
}

std::string draw_traffic(const Report& report) {
  using topology::NicKind;
  constexpr std::array<NicKind, 4> kKinds{NicKind::kInfiniBand, NicKind::kRoce, NicKind::kIwarp,
                                          NicKind::kTcp};
  std::vector<std::map<NicKind, double>> sums;
  double top = 0;
  for (const auto& run : report.runs) {
    auto& sum = sums.emplace_back();
    double total = 0;
    for (const auto& link : run.links) {
      sum[link.kind] += link.bytes_per_step / 1e6;
      total += link.bytes_per_step / 1e6;
    }
    top = std::max(top, total);
  }
  Svg svg(kBarsWidth, svg_height(report), "Bytes per step by kind of NIC");
  Frame axes = frame(svg, report, top, "MB per step");
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    double x = kBarsLeft;
    for (NicKind kind : kKinds) {
      double width = sums[i][kind] * axes.scale;
      if (width <= 0) continue;
      // A gap of two pixels separates neighbours without an outline.
      svg.rectangle(x, bar_y(i), std::max(width - 2, 0.5), kBarsBar,
                    fmt::format("kind-{}", topology::nic_kind_name(kind)),
                    fmt::format("{}: {:.2f} MB per step", kind_title(kind), sums[i][kind]), 2);
      x += width;
    }
    svg.text(x + 8, bar_y(i) + 16, fmt::format("{:.2f} MB on Ethernet", sums[i][NicKind::kTcp]), "value");
  }
  return svg.finish();
}

}  // namespace tombolo::tools::demo
