#include "tools/reports/memory_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include "base/units.h"
#include "tools/reports/html.h"
#include "tools/reports/plan_groups.h"

namespace tombolo::tools {
namespace {

using planner::Plan;
using planner::RankMemory;

/// What ranks hold by kind, and how large their device is.
using Held = std::array<std::uint64_t, 7>;

Held held_by(const Plan& plan, const topology::ClusterFile& cluster, std::size_t rank) {
  const RankMemory& memory = plan.prediction.memory[rank];
  return {memory.parameters,
          memory.gradients,
          memory.optimizer,
          memory.activations,
          memory.buffers,
          memory.total,
          static_cast<std::uint64_t>(memory_of_device(cluster, plan.ranks[rank]))};
}

struct AlikeRanks {
  Held held = {};
  std::set<int> stages, replicas;
  std::vector<int> ranks;
};

std::string numbers_text(const std::set<int>& numbers) {
  return ReplicaGroup{{numbers.begin(), numbers.end()}}.name();
}

std::vector<AlikeRanks> alike_ranks(const Plan& plan, const topology::ClusterFile& cluster) {
  std::map<Held, AlikeRanks> found;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const Held held = held_by(plan, cluster, rank);
    AlikeRanks& alike = found[held];
    alike.held = held;
    alike.stages.insert(plan.ranks[rank].stage);
    alike.replicas.insert(plan.ranks[rank].replica);
    alike.ranks.push_back(static_cast<int>(rank));
  }
  std::vector<AlikeRanks> all;
  for (auto& [held, alike] : found) all.push_back(std::move(alike));
  return all;
}

}  // namespace

double memory_of_device(const topology::ClusterFile& cluster, const planner::RankPlacement& place) {
  const auto* host = cluster.find_host(place.host);
  if (host == nullptr || static_cast<std::size_t>(place.device) >= host->devices.size()) return 0;
  return host->devices[static_cast<std::size_t>(place.device)].memory_bytes;
}

std::string memory_table(const Plan& plan, const topology::ClusterFile& cluster) {
  constexpr std::size_t kMostRows = 64, kTotal = 5, kDevice = 6;
  std::vector<AlikeRanks> all = alike_ranks(plan, cluster);
  const std::size_t count = all.size();
  if (count > kMostRows) {
    std::ranges::sort(all, std::greater{}, [](const AlikeRanks& one) { return one.held[kTotal]; });
    all.resize(kMostRows);
  }
  std::ranges::stable_sort(
      all, {}, [](const AlikeRanks& one) { return std::pair(*one.stages.begin(), *one.replicas.begin()); });
  std::vector<std::vector<std::string>> rows;
  for (const AlikeRanks& one : all) {
    std::vector<std::string> row{numbers_text(one.stages), numbers_text(one.replicas),
                                 ranks_text(plan, one.ranks)};
    for (std::size_t part = 0; part <= kTotal; ++part) row.push_back(format_size(one.held[part]));
    const double device = static_cast<double>(one.held[kDevice]);
    row.push_back(device > 0
                      ? fmt::format("{:.0f} % of {}", 100 * static_cast<double>(one.held[kTotal]) / device,
                                    format_size(one.held[kDevice]))
                      : "-");
    rows.push_back(std::move(row));
  }
  std::string out = html_table({"Stages", "Replicas", "Ranks", "Parameters", "Gradients", "Optimizer",
                                "Activations", "Buffers", "In all", "Of the device"},
                               rows, 3);
  if (count > kMostRows) out += html_note(fmt::format("The {} fullest of {} kinds.", kMostRows, count));
  return out;
}

}  // namespace tombolo::tools
