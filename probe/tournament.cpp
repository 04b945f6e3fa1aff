#include <algorithm>

#include "base/error.h"
#include "probe/probe.h"

namespace tombolo::probe {

// The circle method: player n-1 (or nobody, when n is odd) stays, the others move round it one seat per
// round; whoever sits opposite plays.
std::vector<std::vector<std::pair<int, int>>> tournament(int players) {
  if (players < 0) fail(Cause::kInvalidUsage, "a tournament of {} players", players);
  std::vector<std::vector<std::pair<int, int>>> rounds;
  if (players < 2) return rounds;
  int seats = players + players % 2;  // an odd one out meets the empty seat, and rests
  int moving = seats - 1;
  for (int round = 0; round < moving; ++round) {
    std::vector<std::pair<int, int>> pairs;
    for (int i = 0; i < seats / 2; ++i) {
      int left = i == 0 ? seats - 1 : (round + i) % moving;
      int right = (round + moving - i) % moving;
      if (left < players && right < players) pairs.emplace_back(std::min(left, right), std::max(left, right));
    }
    rounds.push_back(std::move(pairs));
  }
  return rounds;
}

}  // namespace tombolo::probe
