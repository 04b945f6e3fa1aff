#include "collectives/schedule/layout.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tombolo::collectives {

Layout Layout::make(int rank, const std::vector<Place>& places) {
  Layout layout;
  layout.rank = rank;
  layout.size = static_cast<int>(places.size());
  // The lowest rank of each cluster, and of each host within a cluster.
  std::map<std::string, int> clusters;
  std::map<std::pair<std::string, std::string>, int> hosts;
  for (int one = 0; one < layout.size; ++one) {
    const Place& place = places[static_cast<std::size_t>(one)];
    clusters.emplace(place.cluster, one);
    hosts.emplace(std::pair(place.cluster, place.host), one);
    layout.order.push_back(one);
  }
  const auto key = [&](int one) {
    const Place& place = places[static_cast<std::size_t>(one)];
    return std::tuple(clusters[place.cluster], hosts[{place.cluster, place.host}], one);
  };
  std::sort(layout.order.begin(), layout.order.end(), [&](int a, int b) { return key(a) < key(b); });
  std::string_view last;
  for (int where = 0; where < layout.size; ++where) {
    const int one = layout.order[static_cast<std::size_t>(where)];
    const std::string& cluster = places[static_cast<std::size_t>(one)].cluster;
    if (layout.clusters.empty() || cluster != last) layout.clusters.emplace_back();
    last = cluster;
    layout.clusters.back().push_back(one);
    if (one == rank) {
      layout.position = where;
      layout.cluster = static_cast<int>(layout.clusters.size()) - 1;
      layout.index = static_cast<int>(layout.clusters.back().size()) - 1;
    }
  }
  return layout;
}

}  // namespace tombolo::collectives
