#include "collectives/discovery/network_facts.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "base/format.h"
#include "base/hash.h"
#include "collectives/parameters.h"

namespace tombolo::collectives {
namespace {

/// A host of the job, in the order of their lowest ranks.
struct JobHost {
  RankLocation location;
  std::size_t ranks = 0;
};

std::vector<JobHost> hosts_of(const std::vector<RankLocation>& locations) {
  std::vector<JobHost> hosts;
  std::map<std::pair<std::string_view, std::string_view>, std::size_t> known;
  for (const RankLocation& one : locations) {
    const auto [at, is_new] =
        known.emplace(std::pair<std::string_view, std::string_view>(one.cluster, one.host), hosts.size());
    if (is_new) hosts.push_back({one, 0});
    ++hosts[at->second].ranks;
  }
  return hosts;
}

std::vector<ClusterFacts> clusters_of(const std::vector<JobHost>& hosts) {
  std::vector<ClusterFacts> clusters;
  for (const JobHost& host : hosts) {
    auto at = std::ranges::find(clusters, host.location.cluster, &ClusterFacts::name);
    if (at == clusters.end()) at = clusters.insert(at, {host.location.cluster, 0, 0, host.ranks, host.ranks});
    ++at->hosts;
    at->ranks += host.ranks;
    at->least_per_host = std::min(at->least_per_host, host.ranks);
    at->most_per_host = std::max(at->most_per_host, host.ranks);
  }
  return clusters;
}

KnownFrom known_from(const KnownNetwork& known, std::size_t hosts) {
  if (hosts == 1) return KnownFrom::kOneHost;
  if (known.declared) return KnownFrom::kClusterFile;
  if (known.shared_routing) return KnownFrom::kSharedRouting;
  switch (known.discovery.source) {
    case Discovery::Source::kMeasured:
      return KnownFrom::kMeasured;
    case Discovery::Source::kKept:
      return KnownFrom::kKeptFile;
    case Discovery::Source::kTwoHosts:
      return KnownFrom::kTwoHosts;
    case Discovery::Source::kTooManyHosts:
      return KnownFrom::kTooManyHosts;
    case Discovery::Source::kNone:
      break;
  }
  return KnownFrom::kOff;
}

LinkFacts facts_of_file(const topology::ClusterFile& file, const std::vector<JobHost>& hosts) {
  std::vector<RankLocation> locations;
  for (const JobHost& host : hosts) locations.push_back(host.location);
  return link_facts(file, topology::LinkTable(file), locations);
}

std::string plural(std::size_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

/// "2 ranks on each", "2 to 4 ranks on each"
std::string each_has(std::size_t least, std::size_t most) {
  if (least == most) return plural(most, "rank") + " on each";
  return fmt::format("{} to {} on each", least, plural(most, "rank"));
}

/// "A (2 hosts, 2 ranks on each), B (...)"
std::string list(const std::vector<ClusterFacts>& clusters) {
  constexpr std::size_t kMost = 8;
  std::string all;
  for (std::size_t i = 0; i < std::min(clusters.size(), kMost); ++i) {
    const ClusterFacts& one = clusters[i];
    all += fmt::format("{}{} ({}, {})", i > 0 ? ", " : "", one.name, plural(one.hosts, "host"),
                       each_has(one.least_per_host, one.most_per_host));
  }
  if (clusters.size() > kMost) all += fmt::format(" and {} more", clusters.size() - kMost);
  return all;
}

std::string source_in_words(const NetworkFacts& facts, const std::string& renewed) {
  switch (facts.from) {
    case KnownFrom::kOneHost:
      return {};
    case KnownFrom::kClusterFile:
      return facts.file.empty() ? "as the hosts say of themselves"
                                : "as the cluster file " + facts.file + " says";
    case KnownFrom::kMeasured:
      return renewed.empty() ? "which the hosts measured when the communicator was made"
                             : "which the hosts measured while calls were made, since " + renewed;
    case KnownFrom::kKeptFile:
      return "which an earlier job measured" + (facts.file.empty() ? "" : ", kept in " + facts.file);
    case KnownFrom::kTwoHosts:
      return "by the number of their ranks: two hosts measure nothing";
    case KnownFrom::kTooManyHosts:
      return fmt::format("since more than {} hosts measure nothing and no cluster file says more",
                         kMostHosts);
    case KnownFrom::kOff:
      return fmt::format("since {}=off and no cluster file says more", kDiscoverParameter.name);
    case KnownFrom::kSharedRouting:
      return fmt::format("since {}=shared takes one kind of NIC for all", kRoutingParameter.name);
  }
  return {};
}

std::string in_words(const NetworkFacts& facts, const std::vector<JobHost>& hosts, std::size_t ranks,
                     const std::string& renewed) {
  if (facts.from == KnownFrom::kOneHost)
    return fmt::format("{} on host {}", plural(ranks, "rank"), hosts.front().location.host);
  std::string text = fmt::format("{} on {}", plural(ranks, "rank"), plural(hosts.size(), "host"));
  const bool found = facts.from != KnownFrom::kClusterFile;
  if (facts.clusters.size() > 1) {
    text += fmt::format(" in {} {}: {}", facts.clusters.size(), found ? "islands" : "clusters",
                        list(facts.clusters));
  } else {
    const ClusterFacts& all = facts.clusters.front();
    text += fmt::format(", {}, which count as equally far from each other",
                        each_has(all.least_per_host, all.most_per_host));
  }
  return text + ", " + source_in_words(facts, renewed);
}

}  // namespace

std::string_view known_from_name(KnownFrom from) noexcept {
  constexpr std::string_view kNames[] = {"one-host",  "cluster-file",   "measured", "kept-file",
                                         "two-hosts", "too-many-hosts", "off",      "shared-routing"};
  return kNames[static_cast<std::size_t>(from)];
}

NetworkFacts network_facts(const KnownNetwork& known) {
  const std::vector<JobHost> hosts = hosts_of(known.locations);
  NetworkFacts facts;
  facts.clusters = clusters_of(hosts);
  facts.from = known_from(known, hosts.size());
  LinkFacts links;
  if (facts.from == KnownFrom::kClusterFile && known.cluster_file != nullptr) {
    facts.file = known.cluster_file->source;
    links = facts_of_file(*known.cluster_file, hosts);
  } else if (facts.from == KnownFrom::kMeasured || facts.from == KnownFrom::kKeptFile) {
    const Islands& found = known.discovery.found;
    facts.file = known.discovery.file;
    links.inside.bytes_per_second = found.inside_bytes_per_second;
    links.inside.latency_seconds = found.inside_latency_seconds;
    links.between.bytes_per_second = found.between_bytes_per_second;
    links.between.latency_seconds = found.between_latency_seconds;
  }
  if (std::ranges::any_of(hosts, [](const JobHost& host) { return host.ranks > 1; }))
    facts.levels.push_back({Level::kHost});
  if (std::ranges::any_of(facts.clusters, [](const ClusterFacts& one) { return one.hosts > 1; }))
    facts.levels.push_back(links.inside);
  if (facts.clusters.size() > 1) facts.levels.push_back(links.between);
  facts.uplink_bytes_per_second = links.uplink_bytes_per_second;
  facts.text = in_words(facts, hosts, known.locations.size(), known.discovery.renewed);
  return facts;
}

std::uint64_t digest_of(const topology::ClusterFile& file) {
  return std::max<std::uint64_t>(fnv1a<std::uint64_t>(file.to_json().dump()), 1);
}

std::optional<NetworkCosts> network_costs(const NetworkFacts& facts) noexcept {
  if (facts.from == KnownFrom::kOneHost) return std::nullopt;
  const std::size_t ranks = facts.clusters.front().most_per_host;
  const auto is_alike = [ranks](const ClusterFacts& one) {
    return one.least_per_host == ranks && one.most_per_host == ranks;
  };
  if (!std::ranges::all_of(facts.clusters, is_alike)) return std::nullopt;
  return network_costs(facts.levels, facts.uplink_bytes_per_second);
}

}  // namespace tombolo::collectives
