#include "collectives/schedule/link_facts.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

namespace tombolo::collectives {
namespace {

/// The fastest pair of NICs from one host to another.
struct BestPair {
  topology::Attained attained;
  std::vector<bool> crosses;  ///< by shared link
};

double middle_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

class HostLinks {
 public:
  HostLinks(const topology::ClusterFile& file, const topology::LinkTable& links)
      : file_(file), links_(links) {}

  /// Nothing where the file has no such host, or names no rate.
  std::optional<BestPair> best(std::string_view from_host, std::string_view to_host) const {
    const auto from = links_.host_index(from_host), to = links_.host_index(to_host);
    if (!from || !to) return std::nullopt;
    const std::vector<topology::Nic>&out = nics(*from), &in = nics(*to);
    std::optional<BestPair> best;
    std::size_t best_out = 0, best_in = 0;
    for (std::size_t a = 0; a < out.size(); ++a) {
      for (std::size_t b = 0; b < in.size(); ++b) {
        const auto one = links_.find(*from, static_cast<int>(a), *to, static_cast<int>(b));
        if (!one || (best && one->bytes_per_second <= best->attained.bytes_per_second)) continue;
        best = BestPair{*one, {}};
        best_out = a;
        best_in = b;
      }
    }
    if (!best) return std::nullopt;
    for (const topology::SharedLink& shared : file_.shared_links)
      best->crosses.push_back(shared.carries(from_host, out[best_out].name, to_host, in[best_in].name));
    return best;
  }

 private:
  const std::vector<topology::Nic>& nics(int host) const {
    return file_.hosts[static_cast<std::size_t>(host)].nics;
  }

  const topology::ClusterFile& file_;
  const topology::LinkTable& links_;
};

/// What leaves a cluster, or reaches it.
class Uplink {
 public:
  explicit Uplink(const topology::ClusterFile& file)
      : file_(file), crossed_by_all_(file.shared_links.size(), true) {}

  void add(std::size_t from, std::size_t to, const BestPair& pair) {
    out_[from] = std::max(out_[from], pair.attained.bytes_per_second);
    in_[to] = std::max(in_[to], pair.attained.bytes_per_second);
    for (std::size_t shared = 0; shared < crossed_by_all_.size(); ++shared)
      crossed_by_all_[shared] = crossed_by_all_[shared] && pair.crosses[shared];
  }

  double bytes_per_second() const {
    double rate = std::min(sum(out_), sum(in_));
    for (std::size_t shared = 0; shared < crossed_by_all_.size(); ++shared)
      if (crossed_by_all_[shared]) rate = std::min(rate, file_.shared_links[shared].bytes_per_second);
    return rate;
  }

 private:
  static double sum(const std::map<std::size_t, double>& rates) {
    double all = 0;
    for (const auto& [host, rate] : rates) all += rate;
    return all;
  }

  const topology::ClusterFile& file_;
  std::map<std::size_t, double> out_, in_;  // by host
  std::vector<bool> crossed_by_all_;        // by shared link
};

}  // namespace

LinkFacts link_facts(const topology::ClusterFile& file, const topology::LinkTable& links,
                     const std::vector<RankLocation>& hosts) {
  const HostLinks host_links(file, links);
  std::vector<double> rates[2], latencies[2];                   // inside, between
  std::map<std::pair<std::string_view, bool>, Uplink> uplinks;  // by cluster, and whether outwards
  const std::size_t count = std::min(hosts.size(), kMostHostsOfLinkFacts);
  for (std::size_t from = 0; from < count; ++from) {
    for (std::size_t to = 0; to < count; ++to) {
      if (from == to) continue;
      const auto best = host_links.best(hosts[from].host, hosts[to].host);
      if (!best) continue;
      const std::size_t level = hosts[from].cluster == hosts[to].cluster ? 0 : 1;
      rates[level].push_back(best->attained.bytes_per_second);
      latencies[level].push_back(best->attained.latency_seconds);
      if (level == 0) continue;
      uplinks.try_emplace({hosts[from].cluster, true}, file).first->second.add(from, to, *best);
      uplinks.try_emplace({hosts[to].cluster, false}, file).first->second.add(from, to, *best);
    }
  }
  LinkFacts facts;
  facts.inside.bytes_per_second = middle_of(std::move(rates[0]));
  facts.inside.latency_seconds = middle_of(std::move(latencies[0]));
  facts.between.bytes_per_second = middle_of(std::move(rates[1]));
  facts.between.latency_seconds = middle_of(std::move(latencies[1]));
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [cluster, uplink] : uplinks) least = std::min(least, uplink.bytes_per_second());
  if (!uplinks.empty()) facts.uplink_bytes_per_second = least;
  return facts;
}

std::optional<NetworkCosts> network_costs(const std::vector<LevelFacts>& levels,
                                          double uplink_bytes_per_second) noexcept {
  NetworkCosts costs;
  for (const LevelFacts& one : levels) {
    if (one.level == Level::kHost) continue;
    if (one.bytes_per_second <= 0 || one.latency_seconds <= 0) return std::nullopt;
    costs.levels[static_cast<std::size_t>(one.level)] =
        LinkCost::of(one.latency_seconds, one.bytes_per_second);
  }
  costs.set_uplink(uplink_bytes_per_second);
  return costs;
}

}  // namespace tombolo::collectives
