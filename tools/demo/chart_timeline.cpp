#include <algorithm>

#include "base/units.h"
#include "tools/demo/charts.h"
#include "tools/demo/svg.h"

namespace tombolo::tools::demo {
namespace {

constexpr double kWidth = 900, kLeft = 190, kRight = 20, kTop = 6, kBar = 15, kThin = 9, kGap = 9;
constexpr double kLane = kBar + 2 + kThin + kGap;

std::string span_class(const std::string& name) {
  if (name == "forward" || name == "backward" || name == "optimizer" || name == "all-reduce")
    return "t-" + name;
  return "t-transfer";
}

}  // namespace

std::string draw_timeline(const Run& run, const std::vector<planner::Span>& spans, double seconds,
                          const std::string& label) {
  double lanes = static_cast<double>(run.plan.ranks.size());
  double bottom = kTop + lanes * kLane;
  Svg svg(kWidth, bottom + 26, label);
  auto marks = ticks(seconds * 1e3, 8);
  double scale = (kWidth - kLeft - kRight) / marks.back();
  for (double mark : marks) {
    double x = kLeft + mark * scale;
    svg.line(x, kTop, x, bottom, mark == 0 ? "axis" : "grid");
    bool last = mark == marks.back();
    svg.text(x, bottom + 16, last ? short_number(mark) + " ms" : short_number(mark),
             last ? "tick end" : "tick middle");
  }
  for (std::size_t rank = 0; rank < run.plan.ranks.size(); ++rank) {
    const auto& place = run.plan.ranks[rank];
    double y = kTop + static_cast<double>(rank) * kLane;
    svg.text(kLeft - 12, y + 11, fmt::format("rank {} on {}", rank, place.host), "name end");
    svg.text(kLeft - 12, y + 25, fmt::format("stage {}, replica {}", place.stage, place.replica), "tick end");
  }
  for (const auto& span : spans) {
    if (span.rank < 0 || static_cast<std::size_t>(span.rank) >= run.plan.ranks.size()) continue;
    bool transfer = is_transfer(span);
    double y = kTop + span.rank * kLane + (transfer ? kBar + 2 : 0);
    double begin = kLeft + span.begin_seconds * 1e3 * scale;
    double width = std::max((span.end_seconds - span.begin_seconds) * 1e3 * scale - 0.6, 0.6);
    std::string batch = span.micro_batch >= 0 ? fmt::format(" of micro-batch {}", span.micro_batch) : "";
    svg.rectangle(
        begin, y, width, transfer ? kThin : kBar, span_class(span.name),
        fmt::format("{}{}: {} from {:.1f} ms", span.name, batch,
                    format_seconds(span.end_seconds - span.begin_seconds), span.begin_seconds * 1e3),
        1);
  }
  return svg.finish();
}

}  // namespace tombolo::tools::demo
