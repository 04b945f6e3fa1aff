#include "tools/reports/plan_groups.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "topology/files/link_table.h"

namespace tombolo::tools {

namespace {

using planner::Plan;

/// By replica and stage, the clusters of its ranks.
std::vector<std::vector<std::set<std::string>>> clusters_by_stage(const Plan& plan,
                                                                  const topology::ClusterFile& cluster) {
  std::map<std::string, std::string> cluster_of;
  for (const auto& host : cluster.hosts) cluster_of[host.name] = host.cluster;
  std::vector<std::vector<std::set<std::string>>> found(static_cast<std::size_t>(plan.data_size()));
  for (int replica = 0; replica < plan.data_size(); ++replica)
    found[static_cast<std::size_t>(replica)].resize(static_cast<std::size_t>(plan.pipeline_size(replica)));
  for (const auto& place : plan.ranks)
    found[static_cast<std::size_t>(place.replica)][static_cast<std::size_t>(place.stage)].insert(
        cluster_of[place.host]);
  return found;
}

/// By rank, the slowest kind of NIC inside its group of that kind; "-" where it is in none.
std::vector<std::string> kinds_by_rank(const Plan& plan, std::string_view kind) {
  std::vector<std::string> kinds(plan.ranks.size(), "-");
  for (const auto& group : plan.groups)
    if (group.kind == kind)
      for (const int rank : group.ranks)
        kinds[static_cast<std::size_t>(rank)] = topology::nic_kind_name(group.nic_kind);
  return kinds;
}

/// The number of layers, and which: "9 (0-8)"; with several model chunks, those of each.
std::string layers_text(const Plan& plan, int pipeline_stage, int replica) {
  std::vector<std::string> chunks;
  for (int chunk = 0; chunk < plan.job.chunks; ++chunk) {
    const auto& stage = plan.stage(chunk * plan.pipeline_size(replica) + pipeline_stage, replica);
    chunks.push_back(
        fmt::format("{} ({}-{})", stage.layers, stage.first_layer, stage.first_layer + stage.layers - 1));
  }
  return fmt::format("{}", fmt::join(chunks, " + "));
}

bool goes_on(const StageRow& row, const StageRow& next) {
  return row.group == next.group && row.layers_each == next.layers_each && row.clusters == next.clusters &&
         row.gradients == next.gradients && row.pipeline == next.pipeline;
}

}  // namespace

std::string StageRow::stages() const {
  return first_stage == last_stage ? std::to_string(first_stage)
                                   : fmt::format("{}-{}", first_stage, last_stage);
}

std::vector<StageRow> stage_rows(const Plan& plan, const topology::ClusterFile& cluster,
                                 const std::vector<ReplicaGroup>& groups) {
  constexpr std::size_t kMostRows = 32;
  std::map<int, std::size_t> group_of;
  for (std::size_t group = 0; group < groups.size(); ++group)
    for (const int replica : groups[group].replicas) group_of[replica] = group;
  std::map<std::pair<std::size_t, int>, StageRow> rows;
  const auto data_kinds = kinds_by_rank(plan, "data"), pipeline_kinds = kinds_by_rank(plan, "pipeline");
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const auto& place = plan.ranks[rank];
    StageRow& row = rows[{group_of[place.replica], place.stage}];
    row.group = group_of[place.replica];
    row.first_stage = row.last_stage = place.stage;
    row.ranks.push_back(static_cast<int>(rank));
    if (const auto* host = cluster.find_host(place.host)) row.clusters.insert(host->cluster);
    row.gradients.insert(data_kinds[rank]);
    row.pipeline.insert(pipeline_kinds[rank]);
    if (rank < plan.prediction.memory.size())
      row.memory = std::max(row.memory, plan.prediction.memory[rank].total);
  }
  std::vector<StageRow> shown;
  for (auto& [key, row] : rows) {
    const int replica = groups[row.group].replicas.front();
    row.layers_each = plan.layers_at(row.first_stage, replica);
    if (rows.size() <= kMostRows || shown.empty() || !goes_on(shown.back(), row)) {
      row.layers = layers_text(plan, row.first_stage, replica);
      shown.push_back(std::move(row));
      continue;
    }
    StageRow& before = shown.back();
    before.last_stage = row.last_stage;
    before.layers = fmt::format("{} each", before.layers_each);
    before.memory = std::max(before.memory, row.memory);
    before.ranks.insert(before.ranks.end(), row.ranks.begin(), row.ranks.end());
    std::ranges::sort(before.ranks);
  }
  return shown;
}

std::string ReplicaGroup::name() const {
  const bool in_a_row = replicas.back() - replicas.front() + 1 == static_cast<int>(replicas.size());
  if (replicas.size() == 1) return std::to_string(replicas.front());
  if (in_a_row) return fmt::format("{}-{}", replicas.front(), replicas.back());
  constexpr std::size_t kNamed = 3;
  if (replicas.size() <= kNamed + 1) return fmt::format("{}", fmt::join(replicas, ", "));
  return fmt::format("{} and {} others", fmt::join(replicas.begin(), replicas.begin() + kNamed, ", "),
                     replicas.size() - kNamed);
}

std::vector<ReplicaGroup> replica_groups(const Plan& plan, const topology::ClusterFile& cluster) {
  const auto clusters = clusters_by_stage(plan, cluster);
  std::vector<ReplicaGroup> groups;
  for (int replica = 0; replica < plan.data_size(); ++replica) {
    const auto alike = [&](const ReplicaGroup& group) {
      const auto one = static_cast<std::size_t>(group.replicas.front()),
                 other = static_cast<std::size_t>(replica);
      return plan.pipelines[one] == plan.pipelines[other] && clusters[one] == clusters[other];
    };
    const auto at = std::ranges::find_if(groups, alike);
    if (at == groups.end())
      groups.push_back({{replica}});
    else
      at->replicas.push_back(replica);
  }
  return groups;
}

std::string ranks_text(const Plan& plan, const std::vector<int>& ranks) {
  constexpr std::size_t kMostRuns = 4;
  const auto host_of = [&](int rank) -> const std::string& {
    return plan.ranks[static_cast<std::size_t>(rank)].host;
  };
  std::vector<std::string> runs;
  std::vector<std::pair<std::string, int>> hosts;  // with their numbers of ranks
  for (std::size_t first = 0, next = 0; first < ranks.size(); first = next) {
    const std::string& host = host_of(ranks[first]);
    for (next = first + 1;
         next < ranks.size() && ranks[next] == ranks[next - 1] + 1 && host_of(ranks[next]) == host;)
      ++next;
    runs.push_back(next - first == 1 ? fmt::format("{} on {}", ranks[first], host)
                                     : fmt::format("{}-{} on {}", ranks[first], ranks[next - 1], host));
    const auto known = std::ranges::find(hosts, host, &std::pair<std::string, int>::first);
    const int count = static_cast<int>(next - first);
    if (known == hosts.end())
      hosts.emplace_back(host, count);
    else
      known->second += count;
  }
  if (plan.job.framework != planner::Framework::kTombolo) {
    runs.clear();
    for (const auto& [host, count] : hosts) runs.push_back(fmt::format("{} on {}", count, host));
  }
  if (runs.size() <= kMostRuns) return fmt::format("{}", fmt::join(runs, ", "));
  return fmt::format("{} on {} hosts, {} to {}", ranks.size(), hosts.size(), hosts.front().first,
                     hosts.back().first);
}

std::vector<LinkGroup> link_groups(const topology::ClusterFile& cluster,
                                   const planner::Simulation& simulation) {
  const topology::LinkTable rates(cluster);
  std::map<std::tuple<std::string, std::string, topology::NicKind>, LinkGroup> groups;
  for (const auto& link : simulation.links) {
    const auto* from = cluster.find_host(link.from_host);
    const auto* to = cluster.find_host(link.to_host);
    if (!from || !to) continue;
    topology::NicKind kind = topology::NicKind::kTcp;
    for (const auto& nic : from->nics)
      if (nic.name == link.from_nic) kind = nic.kind;
    LinkGroup& group = groups[{from->cluster, to->cluster, kind}];
    group.from = from->cluster;
    group.to = to->cluster;
    group.kind = kind;
    ++group.links;
    group.bytes += link.bytes;
    group.most_bytes = std::max(group.most_bytes, link.bytes);
    if (const auto attained = rates.find(link.from_host, link.from_nic, link.to_host, link.to_nic))
      group.least_seconds = std::max(group.least_seconds, link.bytes / attained->bytes_per_second);
  }
  std::vector<LinkGroup> ordered;
  for (auto& [key, group] : groups) ordered.push_back(std::move(group));
  std::ranges::stable_sort(ordered, std::greater<>(), &LinkGroup::least_seconds);
  return ordered;
}

}  // namespace tombolo::tools
