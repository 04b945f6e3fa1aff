#include "collectives/schedule/rank_map.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tombolo::collectives {

RankMap RankMap::make(int rank, const std::vector<RankLocation>& locations) {
  RankMap map;
  map.rank = rank;
  map.size = static_cast<int>(locations.size());
  // Clusters are ordered by their lowest rank, and so are the hosts within one.
  std::map<std::string, int> clusters;
  std::map<std::pair<std::string, std::string>, int> hosts;
  for (int one = 0; one < map.size; ++one) {
    const RankLocation& location = locations[static_cast<std::size_t>(one)];
    clusters.emplace(location.cluster, one);
    hosts.emplace(std::pair(location.cluster, location.host), one);
    map.order.push_back(one);
  }
  const auto key = [&](int one) {
    const RankLocation& location = locations[static_cast<std::size_t>(one)];
    return std::tuple(clusters[location.cluster], hosts[{location.cluster, location.host}], one);
  };
  std::sort(map.order.begin(), map.order.end(), [&](int a, int b) { return key(a) < key(b); });
  std::string_view last;
  for (int where = 0; where < map.size; ++where) {
    const int one = map.order[static_cast<std::size_t>(where)];
    const std::string& cluster = locations[static_cast<std::size_t>(one)].cluster;
    if (map.clusters.empty() || cluster != last) map.clusters.emplace_back();
    last = cluster;
    map.clusters.back().push_back(one);
    if (one == rank) {
      map.position = where;
      map.cluster = static_cast<int>(map.clusters.size()) - 1;
      map.index = static_cast<int>(map.clusters.back().size()) - 1;
    }
  }
  for (const auto& cluster : map.clusters) {
    std::map<std::string_view, std::size_t> ranks;
    for (const int one : cluster) ++ranks[locations[static_cast<std::size_t>(one)].host];
    const std::size_t of_first = ranks.begin()->second;
    const bool alike = std::ranges::all_of(ranks, [&](const auto& host) { return host.second == of_first; });
    map.ranks_per_host.push_back(alike ? of_first : 1);
  }
  return map;
}

}  // namespace tombolo::collectives
