#include "planner/cost/all_reduce.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

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

void add_inside(AllReduce& result, const Members& cluster) {
  for (const int from : cluster)
    for (const int to : cluster)
      if (from != to) result.transfers.push_back({from, to, 2.0 / static_cast<double>(cluster.size())});
}

/// Adds the exchange between clusters. Every member owns an equal part of the message in its cluster; the
/// message is cut at the borders of all clusters' parts.
void add_between(AllReduce& result, const std::vector<Members>& clusters) {
  std::set<double> borders = {1.0};
  for (const Members& cluster : clusters)
    for (std::size_t i = 0; i < cluster.size(); ++i)
      borders.insert(static_cast<double>(i) / static_cast<double>(cluster.size()));
  const auto count = static_cast<double>(clusters.size());
  for (auto border = borders.begin(); std::next(border) != borders.end(); ++border) {
    const double length = *std::next(border) - *border, middle = *border + length / 2;
    Members owners;
    for (const Members& cluster : clusters)
      owners.push_back(cluster[static_cast<std::size_t>(middle * static_cast<double>(cluster.size()))]);
    add_ring(result, owners, length * 2 * (count - 1) / count);
  }
}

/// The members' numbers, grouped by cluster and then host, each in the order of first appearance.
std::vector<Members> members_by_cluster(const std::vector<MemberLocation>& locations) {
  Members all;
  for (std::size_t member = 0; member < locations.size(); ++member) all.push_back(static_cast<int>(member));
  const auto location = [&](int member) { return locations[static_cast<std::size_t>(member)]; };
  std::vector<Members> clusters = grouped(all, [&](int member) { return location(member).cluster; });
  for (Members& cluster : clusters) {
    Members by_host;
    for (const Members& host : grouped(cluster, [&](int member) { return location(member).host; }))
      by_host.insert(by_host.end(), host.begin(), host.end());
    cluster = std::move(by_host);
  }
  return clusters;
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

namespace {

/// Two levels, of which `add_one` adds what happens inside one cluster.
template <typename AddOne>
AllReduce two_levels(const std::vector<MemberLocation>& locations, const AddOne& add_one) {
  const std::vector<Members> clusters = members_by_cluster(locations);
  AllReduce result;
  bool inside = false;
  for (const Members& cluster : clusters) {
    if (cluster.size() > 1) add_one(result, cluster);
    inside |= cluster.size() > 1;
  }
  if (inside) result.rounds = 2;
  const int count = static_cast<int>(clusters.size());
  if (count < 2) return result;
  add_between(result, clusters);
  // Two clusters exchange in one round; more form a ring.
  result.rounds += count == 2 ? 1 : 2 * (count - 1);
  return result;
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

AllReduce two_level_all_reduce_of(const std::vector<MemberLocation>& locations) {
  return two_levels(locations, add_inside);
}

AllReduce ringed_two_level_all_reduce_of(const std::vector<MemberLocation>& locations) {
  AllReduce result = two_levels(locations, [](AllReduce& all, const Members& cluster) {
    const auto members = static_cast<double>(cluster.size());
    add_ring(all, cluster, 2 * (members - 1) / members);
  });
  result.ring = true;
  return result;
}

AllReduce all_reduce_of(const std::vector<MemberLocation>& locations, Routing routing) {
  return crosses(locations, routing) ? two_level_all_reduce_of(locations) : ring_all_reduce_of(locations);
}

AllReduce all_reduce_of(const std::vector<MemberLocation>& locations, Routing routing, NicUse nics) {
  return nics == NicUse::kNearest && crosses(locations, routing) ? ringed_two_level_all_reduce_of(locations)
                                                                 : all_reduce_of(locations, routing);
}

}  // namespace tombolo::planner
