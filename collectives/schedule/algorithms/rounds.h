// Exchanges among n ranks in a circle in as few rounds as can be, one message each way in a round: what many
// ranks do where a message to each of the others would cost more than it carries.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

namespace tombolo::collectives {

/// One round, in the order of a reduce-scatter; an all-gather takes all of them from the last to the first,
/// the other way round. Of n blocks, each owned by a rank, a rank counts those from its own one on, around
/// the circle. Before the round it has partial sums of the blocks 0 to before - 1. Of these it sends [skip,
/// before) to the rank that is `skip` after it, for which they are the blocks [0, before - skip), gets as
/// many from the rank that is `skip` before it, and keeps [0, skip).
struct CircleRound {
  std::size_t before, skip;
  std::size_t blocks() const noexcept { return before - skip; }
  bool operator==(const CircleRound&) const = default;
};

/// The rounds among n ranks, at least 1: the logarithm of n to base 2, rounded up, in which each rank sends
/// n - 1 blocks in all, as many as if it sent each to its owner.
inline std::vector<CircleRound> circle_rounds(std::size_t n) {
  std::vector<CircleRound> rounds;
  for (std::size_t before = n; before > 1; before = rounds.back().skip)
    rounds.push_back({before, before - before / 2});
  return rounds;
}

/// Up to so many ranks exchange with each other one directly: that waits for nothing that is under way, and
/// rounds would save no more than half of so few messages.
inline constexpr std::size_t kMostPairwise = 8;

/// How often a rank waits for another one in such an exchange among so many, and how many messages it sends.
constexpr std::size_t rounds_among(std::size_t n) noexcept {
  if (n <= kMostPairwise) return n > 1 ? 1 : 0;
  return static_cast<std::size_t>(std::bit_width(n - 1));
}
constexpr std::size_t messages_among(std::size_t n) noexcept {
  return n <= kMostPairwise ? n - std::min<std::size_t>(n, 1) : rounds_among(n);
}

}  // namespace tombolo::collectives
