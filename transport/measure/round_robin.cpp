#include "transport/measure/round_robin.h"

#include <algorithm>

#include "base/error.h"

namespace tombolo::transport::measure {

// The circle method: participant n-1 (or an empty position, where n is odd) stays, the others move around it
// by one position per round, and those opposite each other are paired.
std::vector<std::vector<std::pair<int, int>>> round_robin(int participants) {
  if (participants < 0) fail(Cause::kInvalidUsage, "a round robin of {} participants", participants);
  std::vector<std::vector<std::pair<int, int>>> rounds;
  if (participants < 2) return rounds;
  int positions = participants + participants % 2;  // an odd number leaves one participant out in each round
  int moving = positions - 1;
  for (int round = 0; round < moving; ++round) {
    std::vector<std::pair<int, int>> pairs;
    for (int i = 0; i < positions / 2; ++i) {
      int left = i == 0 ? positions - 1 : (round + i) % moving;
      int right = (round + moving - i) % moving;
      if (left < participants && right < participants)
        pairs.emplace_back(std::min(left, right), std::max(left, right));
    }
    rounds.push_back(std::move(pairs));
  }
  return rounds;
}

}  // namespace tombolo::transport::measure
