#include "tools/reports/timeline.h"

#include <algorithm>
#include <map>

#include "base/units.h"
#include "tools/reports/svg.h"

namespace tombolo::tools {
namespace {

constexpr double kTimelineWidth = 900, kTimelineLeft = 190, kTimelineRight = 20, kTimelineTop = 6,
                 kTimelineBar = 15, kTimelineThin = 9, kTimelineGap = 9;
constexpr double kTimelineRow = kTimelineBar + 2 + kTimelineThin + kTimelineGap;

std::string span_class(const std::string& name) {
  if (name == "forward" || name == "backward" || name == "optimizer" || name == "all-reduce" ||
      name == "all-to-all" || name == "ring")
    return "t-" + name;
  if (name == "weight gradients") return "t-weights";
  return "t-transfer";
}

/// The spans of one row's lane, joined in cells of some pixels: no screen shows more, and thousands of
/// micro-batches would make a page of many megabytes. A cell shows one kind of span, and over several cells
/// each kind, and nothing, has the share that it has of the time.
std::vector<planner::Span> joined(const std::vector<const planner::Span*>& lane, double cell_seconds) {
  std::vector<std::map<std::string, double>> cells;
  for (const planner::Span* span : lane) {
    const auto last = static_cast<std::size_t>(span->end_seconds / cell_seconds);
    if (cells.size() <= last) cells.resize(last + 1);
    for (auto at = static_cast<std::size_t>(span->begin_seconds / cell_seconds); at <= last; ++at) {
      const double begin = std::max(span->begin_seconds, static_cast<double>(at) * cell_seconds);
      const double end = std::min(span->end_seconds, static_cast<double>(at + 1) * cell_seconds);
      if (end > begin) cells[at][span->name] += end - begin;
    }
  }
  std::vector<planner::Span> spans;
  std::map<std::string, double> owed;  // seconds of each kind, "" for nothing, that no cell has shown yet
  for (std::size_t at = 0; at < cells.size(); ++at) {
    double idle = cell_seconds;
    for (const auto& [kind, seconds] : cells[at]) {
      owed[kind] += seconds;
      idle -= seconds;
    }
    owed[""] += std::max(0.0, idle);
    const auto most = std::ranges::max_element(owed, {}, [](const auto& one) { return one.second; });
    most->second -= cell_seconds;
    if (most->first.empty()) continue;
    const double begin = static_cast<double>(at) * cell_seconds;
    if (!spans.empty() && spans.back().name == most->first &&
        begin - spans.back().end_seconds < cell_seconds / 2)
      spans.back().end_seconds = begin + cell_seconds;
    else
      spans.push_back({lane.front()->rank, most->first, -1, begin, begin + cell_seconds});
  }
  return spans;
}

std::vector<planner::Span> all_joined(const std::vector<planner::Span>& spans, const std::vector<int>& row_of,
                                      double seconds) {
  constexpr double kCells = 150;
  std::map<std::pair<int, bool>, std::vector<const planner::Span*>> lanes;
  for (const planner::Span& span : spans)
    if (span.rank >= 0 && static_cast<std::size_t>(span.rank) < row_of.size() &&
        row_of[static_cast<std::size_t>(span.rank)] >= 0)
      lanes[{span.rank, is_transfer(span)}].push_back(&span);
  std::vector<planner::Span> all;
  for (const auto& [key, lane] : lanes) {
    const auto part = joined(lane, seconds / kCells);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
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
  if (plan.job.framework != planner::Framework::kTombolo) {
    // Other frameworks number ranks in their own way.
    int first = place.device, last = first;
    for (const planner::RankPlacement& other : plan.ranks)
      if (shares(other)) {
        first = std::min(first, other.device);
        last = std::max(last, other.device);
      }
    if (first == last) return fmt::format("{}, device {}", place.host, first);
    if (static_cast<std::size_t>(last - first) + 1 == count)
      return fmt::format("{}, devices {}-{}", place.host, first, last);
    return fmt::format("{}, {} devices", place.host, count);
  }
  if (count == 1) return fmt::format("rank {} on {}", rank, place.host);
  const std::size_t end = std::min(rank + count, plan.ranks.size());
  const auto from = plan.ranks.begin() + static_cast<std::ptrdiff_t>(rank);
  if (std::all_of(from, plan.ranks.begin() + static_cast<std::ptrdiff_t>(end), shares))
    return fmt::format("ranks {}-{} on {}", rank, rank + count - 1, place.host);
  return fmt::format("rank {}, {} more on {}", rank, count - 1, place.host);
}

bool joins_spans(const planner::Plan& plan, const std::vector<std::size_t>& ranks,
                 const std::vector<planner::Span>& spans) {
  constexpr std::size_t kMostSpans = 8000;
  std::vector<bool> shown(plan.ranks.size(), false);
  for (const std::size_t rank : ranks) shown[rank] = true;
  const auto count = std::ranges::count_if(spans, [&](const planner::Span& span) {
    return span.rank >= 0 && static_cast<std::size_t>(span.rank) < shown.size() &&
           shown[static_cast<std::size_t>(span.rank)];
  });
  return static_cast<std::size_t>(count) > kMostSpans;
}

std::string draw_timeline(const planner::Plan& plan, const std::vector<std::size_t>& ranks,
                          const std::vector<planner::Span>& spans, double seconds, const std::string& label) {
  std::vector<int> row_of(plan.ranks.size(), -1);
  for (std::size_t row = 0; row < ranks.size(); ++row) row_of[ranks[row]] = static_cast<int>(row);
  double bottom = kTimelineTop + static_cast<double>(ranks.size()) * kTimelineRow;
  Svg svg(kTimelineWidth, bottom + 26, label);
  constexpr double kInMilliseconds = 10;  // shorter steps are
  const double per_unit = seconds < kInMilliseconds ? 1e-3 : 1;
  const auto marks = ticks(seconds / per_unit, 8);
  const double scale = (kTimelineWidth - kTimelineLeft - kTimelineRight) / (marks.back() * per_unit);
  for (double mark : marks) {
    double x = kTimelineLeft + mark * per_unit * scale;
    svg.line(x, kTimelineTop, x, bottom, mark == 0 ? "axis" : "grid");
    bool last = mark == marks.back();
    svg.text(x, bottom + 16, last ? short_number(mark) + (per_unit < 1 ? " ms" : " s") : short_number(mark),
             last ? "tick end" : "tick middle");
  }
  for (std::size_t row = 0; row < ranks.size(); ++row) {
    const auto& place = plan.ranks[ranks[row]];
    double y = kTimelineTop + static_cast<double>(row) * kTimelineRow;
    svg.text(kTimelineLeft - 12, y + 11, group_name(plan, ranks[row]), "name end");
    svg.text(kTimelineLeft - 12, y + 25, fmt::format("stage {}, replica {}", place.stage, place.replica),
             "tick end");
  }
  const bool too_many = joins_spans(plan, ranks, spans);
  const std::vector<planner::Span> few =
      too_many ? all_joined(spans, row_of, seconds) : std::vector<planner::Span>{};
  for (const auto& span : too_many ? few : spans) {
    if (span.rank < 0 || static_cast<std::size_t>(span.rank) >= row_of.size()) continue;
    const int row = row_of[static_cast<std::size_t>(span.rank)];
    if (row < 0) continue;
    bool transfer = is_transfer(span);
    double y = kTimelineTop + row * kTimelineRow + (transfer ? kTimelineBar + 2 : 0);
    double begin = kTimelineLeft + span.begin_seconds * scale;
    double width = std::max((span.end_seconds - span.begin_seconds) * scale - 0.6, 0.6);
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
