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

/// Members of one cluster by host. Where each host has as many, they stand in rows, one for each host, and
/// columns; elsewhere there is one column.
struct Cluster {
  Members members;
  std::size_t columns = 1;

  std::size_t rows() const { return members.size() / columns; }
  int at(std::size_t row, std::size_t column) const { return members[row * columns + column]; }
  /// Who has the sum of part `index` of members.size() equal ones: each column has the parts of its rows.
  int owner(std::size_t index) const { return at(index % rows(), index / rows()); }
};

void add_pairs(AllReduce& result, const Members& members, double fraction) {
  for (const int from : members)
    for (const int to : members)
      if (from != to) result.transfers.push_back({from, to, fraction});
}

/// Returns how many rounds it takes.
int add_inside(AllReduce& result, const Cluster& cluster) {
  for (std::size_t row = 0; row < cluster.rows(); ++row) {
    Members host;
    for (std::size_t column = 0; column < cluster.columns; ++column) host.push_back(cluster.at(row, column));
    add_pairs(result, host, 2.0 / static_cast<double>(cluster.columns));
  }
  for (std::size_t column = 0; column < cluster.columns; ++column) {
    Members peers;
    for (std::size_t row = 0; row < cluster.rows(); ++row) peers.push_back(cluster.at(row, column));
    add_pairs(result, peers, 2.0 / static_cast<double>(cluster.members.size()));
  }
  return 2 * ((cluster.columns > 1 ? 1 : 0) + (cluster.rows() > 1 ? 1 : 0));
}

/// Calls `add` with the owners of a part of the message, one in each cluster, and the part's length. Every
/// member owns an equal part in its cluster; the message is cut at the borders of all clusters' parts.
template <typename Add>
void for_each_part(const std::vector<Cluster>& clusters, const Add& add) {
  std::set<double> borders = {1.0};
  for (const Cluster& cluster : clusters)
    for (std::size_t i = 0; i < cluster.members.size(); ++i)
      borders.insert(static_cast<double>(i) / static_cast<double>(cluster.members.size()));
  for (auto border = borders.begin(); std::next(border) != borders.end(); ++border) {
    const double length = *std::next(border) - *border, middle = *border + length / 2;
    Members owners;
    for (const Cluster& cluster : clusters)
      owners.push_back(
          cluster.owner(static_cast<std::size_t>(middle * static_cast<double>(cluster.members.size()))));
    add(owners, length);
  }
}

/// The members' numbers, grouped by cluster and then host, each in the order of first appearance.
std::vector<Cluster> members_by_cluster(const std::vector<MemberLocation>& locations) {
  Members all;
  for (std::size_t member = 0; member < locations.size(); ++member) all.push_back(static_cast<int>(member));
  const auto location = [&](int member) { return locations[static_cast<std::size_t>(member)]; };
  std::vector<Cluster> clusters;
  for (const Members& members : grouped(all, [&](int member) { return location(member).cluster; })) {
    const auto hosts = grouped(members, [&](int member) { return location(member).host; });
    const std::size_t of_first = hosts.front().size();
    const bool alike =
        std::ranges::all_of(hosts, [&](const Members& host) { return host.size() == of_first; });
    Cluster& cluster = clusters.emplace_back();
    for (const Members& host : hosts) cluster.members.insert(cluster.members.end(), host.begin(), host.end());
    cluster.columns = alike ? of_first : 1;
  }
  return clusters;
}

}  // namespace

AllReduce ring_all_reduce_of(const std::vector<MemberLocation>& locations) {
  const int n = static_cast<int>(locations.size());
  AllReduce result;
  if (n < 2) return result;
  Members ring;
  for (const Cluster& cluster : members_by_cluster(locations))
    ring.insert(ring.end(), cluster.members.begin(), cluster.members.end());
  add_ring(result, ring, 2.0 * (n - 1) / n);
  result.ring = true;
  result.rounds = 2 * (n - 1);
  return result;
}

namespace {

/// How more than two clusters exchange.
enum class Between {
  kDirect,  ///< each sums up a part for all, and gives it to all
  kRing,
};

/// Two levels, of which `add_one` adds what happens inside one cluster, and returns how many rounds that
/// takes.
template <typename AddOne>
AllReduce two_levels(const std::vector<Cluster>& clusters, Between between, const AddOne& add_one) {
  AllReduce result;
  for (const Cluster& cluster : clusters)
    if (cluster.members.size() > 1) result.rounds = std::max(result.rounds, add_one(result, cluster));
  const int count = static_cast<int>(clusters.size());
  if (count < 2) return result;
  const bool ring = between == Between::kRing;
  for_each_part(clusters, [&](const Members& owners, double length) {
    ring ? add_ring(result, owners, length * 2 * (count - 1) / count)
         : add_pairs(result, owners, length * 2 / count);
  });
  // Two clusters swap in one round.
  result.rounds += count == 2 ? 1 : ring ? 2 * (count - 1) : 2;
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
  return two_levels(members_by_cluster(locations), Between::kDirect, add_inside);
}

AllReduce ringed_two_level_all_reduce_of(const std::vector<MemberLocation>& locations) {
  std::vector<Cluster> clusters = members_by_cluster(locations);
  for (Cluster& cluster : clusters) cluster.columns = 1;  // a ring knows no columns
  AllReduce result = two_levels(clusters, Between::kRing, [](AllReduce& all, const Cluster& cluster) {
    const auto members = static_cast<double>(cluster.members.size());
    add_ring(all, cluster.members, 2 * (members - 1) / members);
    return 2;
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
