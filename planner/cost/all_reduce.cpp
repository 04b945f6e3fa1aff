#include "planner/cost/all_reduce.h"

#include <algorithm>
#include <map>
#include <set>

namespace tombolo::planner {

namespace {

using Members = std::vector<int>;

/// Groups members by `key`; groups and members are in the order of first appearance.
template <typename Key>
std::vector<Members> grouped(const Members& members, const Key& key) {
  std::vector<Members> groups;
  std::map<int, std::size_t> group_of;
  for (const int member : members) {
    const auto [entry, added] = group_of.emplace(key(member), groups.size());
    if (added) groups.emplace_back();
    groups[entry->second].push_back(member);
  }
  return groups;
}

void add_ring(AllReduce& result, const Members& members, double fraction) {
  const std::size_t n = members.size();
  for (std::size_t i = 0; i < n; ++i)
    result.transfers.push_back({members[i], members[(i + 1) % n], fraction});
}

/// Calls `add` with the owners of a part of the message, one in each cluster, and the part's length. Every
/// member owns an equal part in its cluster; the message is cut at the borders of all clusters' parts.
template <typename Add>
void for_each_part(const std::vector<Members>& clusters, const Add& add) {
  std::set<double> borders = {1.0};
  for (const Members& cluster : clusters)
    for (std::size_t i = 0; i < cluster.size(); ++i)
      borders.insert(static_cast<double>(i) / static_cast<double>(cluster.size()));
  for (auto border = borders.begin(); std::next(border) != borders.end(); ++border) {
    const double length = *std::next(border) - *border, middle = *border + length / 2;
    Members owners;
    for (const Members& cluster : clusters)
      owners.push_back(cluster[static_cast<std::size_t>(middle * static_cast<double>(cluster.size()))]);
    add(owners, length);
  }
}

/// The members' numbers, grouped by cluster and then host, each in the order of first appearance.
std::vector<Members> members_by_cluster(const std::vector<MemberLocation>& locations) {
  Members all;
  for (std::size_t member = 0; member < locations.size(); ++member) all.push_back(static_cast<int>(member));
  const auto location = [&](int member) { return locations[static_cast<std::size_t>(member)]; };
  std::vector<Members> clusters;
  for (const Members& members : grouped(all, [&](int member) { return location(member).cluster; })) {
    Members& cluster = clusters.emplace_back();
    for (const Members& host : grouped(members, [&](int member) { return location(member).host; }))
      cluster.insert(cluster.end(), host.begin(), host.end());
  }
  return clusters;
}

bool crosses(const std::vector<MemberLocation>& locations, Routing routing) {
  const bool several_clusters = std::ranges::any_of(locations, [&](const MemberLocation& location) {
    return location.cluster != locations.front().cluster;
  });
  // Clusters are declared because what joins them is slower than what is inside. With shared routing all
  // connections use the same kind of NIC, so nothing is faster inside.
  return several_clusters && routing == Routing::kPerPeer;
}

}  // namespace

AllReduce ring_all_reduce_of(const std::vector<MemberLocation>& locations) {
  const int n = static_cast<int>(locations.size());
  AllReduce result;
  if (n < 2) return result;
  Members ring;
  for (const Members& cluster : members_by_cluster(locations))
    ring.insert(ring.end(), cluster.begin(), cluster.end());
  add_ring(result, ring, 2.0 * (n - 1) / n);
  result.ring = true;
  result.rounds = 2 * (n - 1);
  return result;
}

AllReduce two_level_all_reduce_of(const std::vector<MemberLocation>& locations) {
  const std::vector<Members> clusters = members_by_cluster(locations);
  AllReduce result;
  result.ring = true;
  for (const Members& cluster : clusters) {
    if (cluster.size() < 2) continue;
    const auto members = static_cast<double>(cluster.size());
    add_ring(result, cluster, 2 * (members - 1) / members);
    result.rounds = 2;
  }
  const int count = static_cast<int>(clusters.size());
  if (count < 2) return result;
  for_each_part(clusters, [&](const Members& owners, double length) {
    add_ring(result, owners, length * 2 * (count - 1) / count);
  });
  // Two clusters swap in one round.
  result.rounds += count == 2 ? 1 : 2 * (count - 1);
  return result;
}

AllReduce all_reduce_of(const std::vector<MemberLocation>& locations, Routing routing) {
  return crosses(locations, routing) ? two_level_all_reduce_of(locations) : ring_all_reduce_of(locations);
}

}  // namespace tombolo::planner
