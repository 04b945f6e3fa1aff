#include "tools/reports/probe_report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/units.h"

namespace tombolo::tools {
namespace {

std::set<std::string> clusters_of(const topology::ClusterFile& cluster, const probe::Island& island) {
  std::set<std::string> names;
  for (const std::string& host : island.hosts)
    if (const auto* found = cluster.find_host(host)) names.insert(found->cluster);
  return names;
}

std::vector<std::string_view> kinds_of(const probe::Island& island) {
  std::vector<std::string_view> names;
  for (const topology::NicKind kind : island.kinds) names.push_back(topology::nic_kind_name(kind));
  return names;
}

std::string island_text(const topology::ClusterFile& cluster, const probe::Island& island) {
  const auto clusters = clusters_of(cluster, island);
  std::string text = fmt::format("  {} (cluster{} {})", fmt::join(island.hosts, " "),
                                 clusters.size() == 1 ? "" : "s", fmt::join(clusters, ", "));
  if (island.bytes_per_second > 0)
    text += fmt::format(": {} by {}", format_bit_rate(island.bytes_per_second),
                        fmt::join(kinds_of(island), ", "));
  if (!island.close) text += ", nobody markedly nearer than the rest";
  return text + '\n';
}

bool is_between_clusters(const probe::ProbedLinks& measured, const topology::SharedLink& link) {
  return std::ranges::any_of(measured.loads, [&](const auto& load) { return load.name == link.name; });
}

}  // namespace

std::string describe_structure(const topology::ClusterFile& cluster, const probe::ProbedLinks& measured,
                               const std::vector<std::string>& differences) {
  std::string text;
  if (!measured.islands.empty())
    text += "islands, whose hosts reach each other markedly faster than others:\n";
  for (const probe::Island& island : measured.islands) text += island_text(cluster, island);
  for (const std::string& difference : differences) text += fmt::format("  but {}\n", difference);
  const bool any = !measured.loads.empty() || !measured.shared.empty();
  if (any) text += "under load:\n";
  for (const probe::LoadFinding& load : measured.loads) {
    text +=
        fmt::format("  {}: alone {}, {} pairs at once {} in all: {}\n", load.name,
                    format_bit_rate(load.alone_bytes_per_second), load.pairs,
                    format_bit_rate(load.together_bytes_per_second), load.shared ? "shared" : "not shared");
  }
  for (const topology::SharedLink& link : measured.shared) {
    if (is_between_clusters(measured, link)) continue;
    text += fmt::format("  {}: {} for all of them at once: one port\n", link.name,
                        format_bit_rate(link.bytes_per_second));
  }
  return text;
}

void add_structure(Json& json, const topology::ClusterFile& cluster, const probe::ProbedLinks& measured,
                   const std::vector<std::string>& differences) {
  json["islands"] = Json::array();
  for (const probe::Island& island : measured.islands) {
    json["islands"].push_back({{"hosts", island.hosts},
                               {"clusters", clusters_of(cluster, island)},
                               {"close", island.close},
                               {"kinds", kinds_of(island)}});
    if (island.bytes_per_second > 0) json["islands"].back()["bytes_per_second"] = island.bytes_per_second;
  }
  json["differences"] = differences;
  json["loads"] = Json::array();
  for (const probe::LoadFinding& load : measured.loads) {
    json["loads"].push_back({{"name", load.name},
                             {"pairs", load.pairs},
                             {"alone_bytes_per_second", load.alone_bytes_per_second},
                             {"together_bytes_per_second", load.together_bytes_per_second},
                             {"shared", load.shared}});
  }
}

}  // namespace tombolo::tools
