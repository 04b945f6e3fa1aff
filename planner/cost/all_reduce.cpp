#include "planner/cost/all_reduce.h"

#include <algorithm>
#include <map>
#include <set>

namespace tombolo::planner {

namespace {

using Members = std::vector<int>;

/// Members grouped by `key`, groups and members in the order of first appearance.
template <typename Key>
std::vector<Members> grouped(const Members& members, const Key& key) {
  std::vector<Members> groups;
  std::map<int, std::size_t> group_of;
  for (const int member : members) {
    const auto [place, added] = group_of.emplace(key(member), groups.size());
    if (added) groups.emplace_back();
    groups[place->second].push_back(member);
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

/// Every member owns an equal part of the message in its cluster; the message is cut at the borders of all.
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

}  // namespace

AllReduce all_reduce_of(const std::vector<MemberPlace>& places) {
  const int n = static_cast<int>(places.size());
  AllReduce result;
  if (n < 2) return result;
  Members all;
  for (int member = 0; member < n; ++member) all.push_back(member);
  const auto place = [&](int member) { return places[static_cast<std::size_t>(member)]; };
  const auto clusters = grouped(all, [&](int member) { return place(member).cluster; });
  if (clusters.size() == 1) {
    Members ring;
    for (const Members& host : grouped(all, [&](int member) { return place(member).host; }))
      ring.insert(ring.end(), host.begin(), host.end());
    add_ring(result, ring, 2.0 * (n - 1) / n);
    result.rounds = 2 * (n - 1);
    return result;
  }
  bool inside = false;
  for (const Members& cluster : clusters) {
    add_inside(result, cluster);
    inside |= cluster.size() > 1;
  }
  add_between(result, clusters);
  const int count = static_cast<int>(clusters.size());
  // Two clusters swap in one round; more make a ring of them.
  result.rounds = (inside ? 2 : 0) + (count == 2 ? 1 : 2 * (count - 1));
  return result;
}

}  // namespace tombolo::planner
