#include "tools/reports/timeline.h"

#include <algorithm>

#include "base/units.h"
#include "tools/reports/svg.h"

namespace tombolo::tools {
namespace {

constexpr double kTimelineWidth = 900, kTimelineLeft = 190, kTimelineRight = 20, kTimelineTop = 6,
                 kTimelineBar = 15, kTimelineThin = 9, kTimelineGap = 9;
constexpr double kTimelineRow = kTimelineBar + 2 + kTimelineThin + kTimelineGap;

std::string span_class(const std::string& name) {
  if (name == "forward" || name == "backward" || name == "optimizer" || name == "all-reduce")
    return "t-" + name;
  if (name == "weight gradients") return "t-weights";
  return "t-transfer";
}

}  // namespace

bool is_transfer(const planner::Span& span) noexcept {
  return span.name != "forward" && span.name != "backward" && span.name != "weight gradients" &&
         span.name != "optimizer";
}

std::vector<std::size_t> first_ranks(const planner::Plan& plan) {
  std::vector<std::size_t> first;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank)
    if (plan.ranks[rank].tensor == 0) first.push_back(rank);
  return first;
}

std::string group_name(const planner::Plan& plan, std::size_t rank) {
  const planner::RankPlacement& place = plan.ranks[rank];
  const auto shares = [&](const planner::RankPlacement& other) {
    return other.stage == place.stage && other.replica == place.replica;
  };
  const auto count = static_cast<std::size_t>(std::ranges::count_if(plan.ranks, shares));
  if (count == 1) return fmt::format("rank {} on {}", rank, place.host);
  const std::size_t end = std::min(rank + count, plan.ranks.size());
  const auto from = plan.ranks.begin() + static_cast<std::ptrdiff_t>(rank);
  if (std::all_of(from, plan.ranks.begin() + static_cast<std::ptrdiff_t>(end), shares))
    return fmt::format("ranks {}-{} on {}", rank, rank + count - 1, place.host);
  return fmt::format("rank {}, {} more on {}", rank, count - 1, place.host);
}

std::string draw_timeline(const planner::Plan& plan, const std::vector<std::size_t>& ranks,
                          const std::vector<planner::Span>& spans, double seconds, const std::string& label) {
  std::vector<int> row_of(plan.ranks.size(), -1);
  for (std::size_t row = 0; row < ranks.size(); ++row) row_of[ranks[row]] = static_cast<int>(row);
  double bottom = kTimelineTop + static_cast<double>(ranks.size()) * kTimelineRow;
  Svg svg(kTimelineWidth, bottom + 26, label);
  auto marks = ticks(seconds * 1e3, 8);
  double scale = (kTimelineWidth - kTimelineLeft - kTimelineRight) / marks.back();
  for (double mark : marks) {
    double x = kTimelineLeft + mark * scale;
    svg.line(x, kTimelineTop, x, bottom, mark == 0 ? "axis" : "grid");
    bool last = mark == marks.back();
    svg.text(x, bottom + 16, last ? short_number(mark) + " ms" : short_number(mark),
             last ? "tick end" : "tick middle");
  }
  for (std::size_t row = 0; row < ranks.size(); ++row) {
    const auto& place = plan.ranks[ranks[row]];
    double y = kTimelineTop + static_cast<double>(row) * kTimelineRow;
    svg.text(kTimelineLeft - 12, y + 11, group_name(plan, ranks[row]), "name end");
    svg.text(kTimelineLeft - 12, y + 25, fmt::format("stage {}, replica {}", place.stage, place.replica),
             "tick end");
  }
  for (const auto& span : spans) {
    if (span.rank < 0 || static_cast<std::size_t>(span.rank) >= row_of.size()) continue;
    const int row = row_of[static_cast<std::size_t>(span.rank)];
    if (row < 0) continue;
    bool transfer = is_transfer(span);
    double y = kTimelineTop + row * kTimelineRow + (transfer ? kTimelineBar + 2 : 0);
    double begin = kTimelineLeft + span.begin_seconds * 1e3 * scale;
    double width = std::max((span.end_seconds - span.begin_seconds) * 1e3 * scale - 0.6, 0.6);
    std::string batch = span.micro_batch >= 0 ? fmt::format(" of micro-batch {}", span.micro_batch) : "";
    svg.rectangle(
        begin, y, width, transfer ? kTimelineThin : kTimelineBar, span_class(span.name),
        fmt::format("{}{}: {} from {:.1f} ms", span.name, batch,
                    format_seconds(span.end_seconds - span.begin_seconds), span.begin_seconds * 1e3),
        1);
  }
  return svg.finish();
}

}  // namespace tombolo::tools
