#include "planner/all_reduce.h"

#include <algorithm>
#include <map>

namespace tombolo::planner {

namespace {

/// `share` of the message over each edge of the ring through `members`, `rounds` chunks one after another.
void add_ring(Phase& phase, const std::vector<int>& members, double share, int rounds) {
  const std::size_t n = members.size();
  for (std::size_t i = 0; i < n; ++i) phase.transfers.push_back({members[i], members[(i + 1) % n], share});
  phase.rounds = std::max(phase.rounds, rounds);
}

}  // namespace

std::vector<Phase> all_reduce_phases(const std::vector<int>& cluster) {
  const int n = static_cast<int>(cluster.size());
  if (n < 2) return {};
  std::vector<std::vector<int>> islands;
  std::map<int, std::size_t> island_of;
  for (int member = 0; member < n; ++member) {
    const auto [place, added] = island_of.emplace(cluster[static_cast<std::size_t>(member)], islands.size());
    if (added) islands.emplace_back();
    islands[place->second].push_back(member);
  }
  const int width = static_cast<int>(islands.front().size());
  const bool equal = std::all_of(islands.begin(), islands.end(), [&](const auto& island) {
    return static_cast<int>(island.size()) == width;
  });
  if (islands.size() == 1 || width == 1 || !equal) {
    // Islands in a row, so that the ring crosses between each two of them once in either direction.
    std::vector<int> members;
    for (const auto& island : islands) members.insert(members.end(), island.begin(), island.end());
    Phase ring;
    add_ring(ring, members, 2.0 * (n - 1) / n, 2 * (n - 1));
    return {ring};
  }
  const int count = static_cast<int>(islands.size());
  Phase scatter, across;
  for (const auto& island : islands) add_ring(scatter, island, (width - 1.0) / width, width - 1);
  for (int shard = 0; shard < width; ++shard) {
    std::vector<int> peers;
    for (const auto& island : islands) peers.push_back(island[static_cast<std::size_t>(shard)]);
    add_ring(across, peers, 2.0 * (count - 1) / count / width, 2 * (count - 1));
  }
  return {scatter, across, scatter};
}

}  // namespace tombolo::planner
