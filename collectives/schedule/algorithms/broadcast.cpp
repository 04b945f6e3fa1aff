#include "collectives/schedule/algorithms/broadcast.h"

#include <algorithm>

namespace tombolo::collectives {

std::vector<int> chain_from(const Layout& layout, int root) {
  std::vector<int> chain{root};
  const auto append = [&](const std::vector<int>& cluster) {
    for (const int rank : cluster) {
      if (rank != root) chain.push_back(rank);
    }
  };
  const auto holds_root = [&](const std::vector<int>& cluster) {
    return std::find(cluster.begin(), cluster.end(), root) != cluster.end();
  };
  for (const auto& cluster : layout.clusters) {
    if (holds_root(cluster)) append(cluster);
  }
  for (const auto& cluster : layout.clusters) {
    if (!holds_root(cluster)) append(cluster);
  }
  return chain;
}

Schedule broadcast(const Layout& layout, const Problem& problem, const Tuning& tuning, bool in_place) {
  ScheduleBuilder builder(in_place, 0);
  const std::vector<int> chain = chain_from(layout, problem.root);
  const auto n = chain.size();
  const auto p = static_cast<std::size_t>(std::find(chain.begin(), chain.end(), layout.rank) - chain.begin());
  const std::size_t bytes = problem.count * problem.element_bytes;
  const Piece output{Buffer::kOutput, 0};
  const Piece source = p == 0 ? Piece{Buffer::kInput, 0} : output;
  if (p == 0) builder.copy(output, source, bytes);
  if (bytes <= tuning.small_bytes) {
    // p's parent lacks p's highest bit.
    std::size_t bit = 1;
    while (bit <= p) bit *= 2;
    if (p > 0) builder.receive(chain[p - bit / 2], output, bytes);
    for (; p + bit < n; bit *= 2) builder.send(chain[p + bit], source, bytes);
    return builder.build("tree");
  }
  const std::size_t pieces = pieces_of(problem.count, problem.element_bytes, tuning.segment_bytes);
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const Interval part = part_of({0, problem.count}, piece, pieces);
    const std::size_t at = part.begin * problem.element_bytes, size = part.count() * problem.element_bytes;
    if (p > 0) builder.receive(chain[p - 1], output + at, size);
    if (p + 1 < n) builder.send(chain[p + 1], source + at, size);
  }
  return builder.build("chain");
}

}  // namespace tombolo::collectives
