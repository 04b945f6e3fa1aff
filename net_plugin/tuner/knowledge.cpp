#include "net_plugin/tuner/knowledge.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/parse_duration.h"
#include "base/units.h"
#include "topology/files/cluster_file.h"
#include "topology/files/link_table.h"

namespace tombolo::net_plugin {
namespace {

using topology::ClusterFile;

/// Links between the hosts of a cluster file, by the clusters of their ends.
class ClusterLinks {
 public:
  explicit ClusterLinks(const ClusterFile& file) : file_(file), table_(file), names_(file.clusters()) {
    for (const topology::Host& host : file.hosts) {
      const auto at = std::ranges::find(names_, host.cluster) - names_.begin();
      cluster_of_[host.name] = static_cast<std::size_t>(at);
    }
    for (const topology::Link& link : file.links) {
      if (link.from_host == link.to_host) continue;
      HostLink& best =
          listed_[{cluster_of_[link.from_host], cluster_of_[link.to_host]}][{link.from_host, link.to_host}];
      take_faster(best, {link.bytes_per_second, link.latency_seconds});
    }
  }

  const std::vector<std::string>& names() const { return names_; }
  std::size_t cluster_of(const std::string& host) const { return cluster_of_.at(host); }

  /// The slowest pair of hosts from one cluster to another (or to itself), each pair over its fastest NICs:
  /// of the links that the file lists, else of the default for the clusters' first hosts.
  std::optional<HostLink> slowest(std::size_t from, std::size_t to) const {
    const auto listed = listed_.find({from, to});
    if (listed == listed_.end()) return by_default(from, to);
    HostLink worst = listed->second.begin()->second;
    for (const auto& [hosts, link] : listed->second) take_slower(worst, link);
    return worst;
  }

  /// The NICs with which a host reaches the first host of another cluster, by at least half the rate of the
  /// best; the fewest of any host that reaches one at all, and 1 where none is known to.
  int nics_between() const {
    int fewest = 0;
    for (int host = 0; host < static_cast<int>(file_.hosts.size()); ++host) {
      std::vector<double> rates;
      for (int mine = 0; mine < nics(host); ++mine) rates.push_back(best_rate_outside(host, mine));
      const double best = rates.empty() ? 0 : *std::ranges::max_element(rates);
      if (best <= 0) continue;
      const auto count =
          static_cast<int>(std::ranges::count_if(rates, [&](double one) { return one >= best / 2; }));
      fewest = fewest > 0 ? std::min(fewest, count) : count;
    }
    return std::max(fewest, 1);
  }

  static void take_slower(HostLink& kept, const HostLink& other) {
    kept.bytes_per_second = std::min(kept.bytes_per_second, other.bytes_per_second);
    kept.latency_seconds = std::max(kept.latency_seconds, other.latency_seconds);
  }

 private:
  static void take_faster(HostLink& kept, const HostLink& other) {
    if (other.bytes_per_second > kept.bytes_per_second) kept = other;
  }

  std::optional<HostLink> by_default(std::size_t from, std::size_t to) const {
    std::vector<int> ends;
    for (const std::size_t cluster : {from, to}) {
      for (int host = 0; host < static_cast<int>(file_.hosts.size()); ++host) {
        if (file_.hosts[static_cast<std::size_t>(host)].cluster != names_[cluster]) continue;
        if (!ends.empty() && ends.front() == host) continue;
        ends.push_back(host);
        break;
      }
    }
    if (ends.size() < 2) return std::nullopt;  // a cluster of one host has no link inside
    HostLink best;
    for (int mine = 0; mine < nics(ends[0]); ++mine) {
      for (int its = 0; its < nics(ends[1]); ++its) {
        if (const auto found = table_.find(ends[0], mine, ends[1], its))
          take_faster(best, {found->bytes_per_second, found->latency_seconds});
      }
    }
    if (best.bytes_per_second <= 0) return std::nullopt;
    return best;
  }
  double best_rate_outside(int host, int nic) const {
    double best = 0;
    for (const std::string& cluster : names_) {
      if (cluster == file_.hosts[static_cast<std::size_t>(host)].cluster) continue;
      const auto first = std::ranges::find(file_.hosts, cluster, &topology::Host::cluster);
      const int other = static_cast<int>(first - file_.hosts.begin());
      for (int its = 0; its < nics(other); ++its)
        if (const auto found = table_.find(host, nic, other, its))
          best = std::max(best, found->bytes_per_second);
    }
    return best;
  }
  int nics(int host) const {
    return static_cast<int>(file_.hosts[static_cast<std::size_t>(host)].nics.size());
  }

  const ClusterFile& file_;
  topology::LinkTable table_;
  std::vector<std::string> names_;
  std::map<std::string, std::size_t> cluster_of_;
  std::map<std::pair<std::size_t, std::size_t>, std::map<std::pair<std::string, std::string>, HostLink>>
      listed_;
};

/// The hosts of each cluster among the ends of a shared link.
std::map<std::size_t, std::set<std::string>> hosts_by_cluster(const std::vector<topology::NicName>& ends,
                                                              const ClusterLinks& links) {
  std::map<std::size_t, std::set<std::string>> hosts;
  for (const topology::NicName& end : ends) hosts[links.cluster_of(end.host)].insert(end.host);
  return hosts;
}

/// Lowers the rates by what shared links between clusters let pass: an uplink of several hosts bounds all of
/// them together, a port of one host that host alone.
void apply_shared_links(const ClusterFile& file, const ClusterLinks& links, Span& span) {
  for (const topology::SharedLink& shared : file.shared_links) {
    for (const auto& [from, from_hosts] : hosts_by_cluster(shared.from, links)) {
      for (const auto& [to, to_hosts] : hosts_by_cluster(shared.to, links)) {
        if (from == to) continue;
        const bool of_many = from_hosts.size() > 1 && to_hosts.size() > 1;
        double& bound = of_many ? span.shared_bytes_per_second : span.between.bytes_per_second;
        bound = bound > 0 ? std::min(bound, shared.bytes_per_second) : shared.bytes_per_second;
      }
    }
  }
}

/// Takes the slowest links inside clusters and between them; says which rate between clusters is missing.
std::string find_links(const ClusterFile& file, const ClusterLinks& links, Span& span) {
  std::optional<HostLink> inside, between;
  for (std::size_t from = 0; from < span.hosts.size(); ++from) {
    for (std::size_t to = 0; to < span.hosts.size(); ++to) {
      const auto link = links.slowest(from, to);
      if (!link && from != to) {
        return fmt::format("{} says no rate from cluster '{}' to '{}' (`tombolo probe` measures it)",
                           file.source, links.names()[from], links.names()[to]);
      }
      if (!link) continue;
      std::optional<HostLink>& kept = from == to ? inside : between;
      if (kept) {
        ClusterLinks::take_slower(*kept, *link);
      } else {
        kept = link;
      }
    }
  }
  span.inside = inside.value_or(HostLink{});
  span.between = between.value_or(HostLink{});
  return {};
}

/// A count of hosts or NICs.
int count_of(std::string_view text, std::string_view what) {
  int count = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), count);
  constexpr int kMost = 1'000'000;
  if (problem != std::errc() || end != text.data() + text.size() || count < 1 || count > kMost)
    fail(Cause::kInvalidUsage, "{}: '{}' is no number from 1 to {}", what, text, kMost);
  return count;
}

/// "2+4": of each cluster.
std::vector<int> hosts_of(std::string_view text, std::string_view what) {
  std::vector<int> hosts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    hosts.push_back(count_of(text.substr(begin, end - begin), what));
    begin = end + 1;
  }
  if (hosts.size() < 2)
    fail(Cause::kInvalidUsage, "{}: '{}' names one cluster; say the hosts of each, as 2+4", what, text);
  return hosts;
}

/// Why a communicator of so many nodes is not known to span clusters; empty where it is.
std::string why_unknown(TunerMode mode, const TunerFile& file, std::size_t nodes) {
  const std::vector<int>& hosts = file.span.hosts;
  const auto all = static_cast<std::size_t>(std::accumulate(hosts.begin(), hosts.end(), 0));
  if (hosts.size() < 2) return fmt::format("{} has one cluster", file.path);
  if (nodes < 2) return "the communicator has one node";
  if (nodes > all) return fmt::format("{} nodes are more than the {} hosts of {}", nodes, all, file.path);
  const auto largest = std::max_element(hosts.begin(), hosts.end());
  if (mode == TunerMode::kAuto && nodes <= static_cast<std::size_t>(*largest)) {
    return fmt::format(
        "{} nodes may all be in cluster '{}', which has {} hosts (TOMBOLO_TUNER=spanning says that they are "
        "not)",
        nodes, file.clusters[static_cast<std::size_t>(largest - hosts.begin())], *largest);
  }
  return file.lacking;
}

}  // namespace

std::uint64_t TunerFile::hash_of(std::string_view bytes) noexcept {
  // Another text with each change of the rules: ranks whose builds would choose differently are told apart.
  constexpr std::string_view kRules = "2";
  return mix(fnv1a<std::uint64_t>(bytes) ^ fnv1a<std::uint64_t>(kRules));
}

TunerFile TunerFile::parse(std::string path, std::string_view bytes) {
  ClusterFile cluster = ClusterFile::parse(JsonDocument::parse(bytes, path));
  cluster.source = path;
  const ClusterLinks links(cluster);
  TunerFile made;
  made.content_hash = hash_of(bytes);
  made.clusters = links.names();
  made.span.hosts.resize(made.clusters.size());
  for (const topology::Host& host : cluster.hosts) ++made.span.hosts[links.cluster_of(host.name)];
  made.lacking = find_links(cluster, links, made.span);
  apply_shared_links(cluster, links, made.span);
  made.span.nics = links.nics_between();
  made.path = std::move(path);
  return made;
}

TunerFile TunerFile::parse_link(std::string name, std::string_view text) {
  constexpr double kBits = 8;
  TunerFile made;
  made.content_hash = hash_of(text);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word.empty()) continue;
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string_view key = word.substr(0, equals),
                           value = word.substr(std::min(equals + 1, word.size()));
    const std::string what = fmt::format("{}: {}", name, key);
    if (key == "hosts") {
      made.span.hosts = hosts_of(value, what);
    } else if (key == "rate") {
      made.span.between.bytes_per_second = parse_bit_rate(value, what) / kBits;
    } else if (key == "rtt") {
      made.span.between.latency_seconds = to_seconds(parse_duration(value, what)) / 2;
    } else if (key == "shared") {
      made.span.shared_bytes_per_second = parse_bit_rate(value, what) / kBits;
    } else if (key == "nics") {
      made.span.nics = count_of(value, what);
    } else {
      fail(Cause::kInvalidUsage, "{}: '{}' is none of hosts=, rate=, rtt=, shared= and nics=", name, word);
    }
  }
  for (const auto& [lacks, key] : {std::pair(made.span.hosts.empty(), "hosts=2+4"),
                                   std::pair(made.span.between.bytes_per_second <= 0, "rate=10gbit"),
                                   std::pair(made.span.between.latency_seconds <= 0, "rtt=20ms")})
    if (lacks) fail(Cause::kInvalidUsage, "{}: '{}' lacks {}", name, text, key);
  for (std::size_t i = 0; i < made.span.hosts.size(); ++i) made.clusters.push_back(fmt::format("{}", i + 1));
  made.path = std::move(name);
  return made;
}

Knowledge knowledge_of(TunerMode mode, const TunerFile* file, std::size_t nodes) {
  if (mode == TunerMode::kOff) return {{}, "TOMBOLO_TUNER=off"};
  if (file == nullptr) return {{}, "neither TOMBOLO_CLUSTER nor TOMBOLO_TUNER_LINK says over what"};
  if (std::string why = why_unknown(mode, *file, nodes); !why.empty()) return {{}, std::move(why)};
  return {file->span,
          fmt::format("{} nodes span the {} clusters of {}", nodes, file->clusters.size(), file->path)};
}

}  // namespace tombolo::net_plugin
