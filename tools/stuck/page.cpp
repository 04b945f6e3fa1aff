#include "tools/stuck/page.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/format.h"
#include "base/printable.h"
#include "base/units.h"

namespace tombolo::tools::stuck {
namespace {

constexpr std::size_t kMostLines = 40;  // of each part

void add_part(std::string& page, std::string_view heading, const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  page += fmt::format("\n{}\n", heading);
  for (std::size_t i = 0; i < std::min(lines.size(), kMostLines); ++i)
    page += fmt::format("  {}\n", printable(lines[i]));
  if (lines.size() > kMostLines) page += fmt::format("  and {} more\n", lines.size() - kMostLines);
}

std::string heading_of(const JobView& job) {
  std::set<std::string> hosts;
  std::size_t stuck = 0;
  double longest = 0;
  for (const RankView& one : job.ranks) {
    if (!one.host.empty()) hosts.insert(one.host);
    if (!one.stuck()) continue;
    ++stuck;
    for (const auto& each : one.report->communicators) longest = std::max(longest, each.stuck_seconds);
  }
  std::string text =
      fmt::format("Job at {}: {} ranks on {} hosts; ", job.store, job.ranks.size(), hosts.size());
  if (stuck == 0) return text + "none says that it is stuck";
  return text + fmt::format("{} wait{} in vain, the longest for {} when it said so", stuck,
                            stuck == 1 ? "s" : "", format_seconds(longest));
}

}  // namespace

std::string page_of(const JobView& job, const Findings& findings) {
  std::string page = printable(heading_of(job)) + "\n";
  std::vector<std::string> lines;
  for (const Group& one : findings.groups)
    lines.push_back(fmt::format("{:<14} {}", list_of_ranks(one.ranks), one.doing));
  add_part(page, "What the ranks do", lines);

  lines.clear();
  for (const Edge& one : findings.waits) {
    lines.push_back(fmt::format("rank {} waits for rank {} {}, {}, in {}", one.from, one.to, one.what,
                                one.link, one.doing));
  }
  add_part(page, "Who waits for whom", lines);

  lines.clear();
  for (const Culprit& one : findings.culprits) {
    lines.push_back(fmt::format("{}: {}", culprit_kind_name(one.kind), one.text));
    lines.push_back(fmt::format("  look at: {}", one.next));
  }
  const bool any_stuck = std::ranges::any_of(job.ranks, &RankView::stuck);
  if (findings.culprits.empty() && any_stuck) {
    lines.emplace_back("nobody: all ranks wait in the same calls, and what was sent has come");
    lines.emplace_back(
        "  look at: whether the page stays the same for a while; if it does, please report it with "
        "what --json writes");
  }
  add_part(page, "Likely to blame", lines);
  add_part(page, "Not reached", job.unreached);
  return page;
}

}  // namespace tombolo::tools::stuck
