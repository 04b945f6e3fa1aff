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
    std::vector<std::size_t>& ranks = map.hosts.emplace_back();
    std::string_view host;
    for (const int one : cluster) {
      const std::string_view here = locations[static_cast<std::size_t>(one)].host;
      if (ranks.empty() || here != host) ranks.push_back(0);
      host = here;
      ++ranks.back();
    }
  }
  return map;
}

}  // namespace tombolo::collectives
