#include "collectives/schedule/algorithms/doubling_all_reduce.h"

#include "collectives/schedule/algorithms/few_bytes.h"

namespace tombolo::collectives {
namespace {

/// Between two ranks doubling moves no more bytes than a ring, in half as many steps.
Tuning widened(const RankMap& ranks, Tuning tuning) {
  if (ranks.size == 2) tuning.small_bytes *= 4;
  return tuning;
}

bool doubling_all_reduce_applies(const RankMap& ranks, const Problem& problem, const Tuning& tuning) {
  return problem.bytes() <= widened(ranks, tuning).small_bytes;
}

std::string doubling_all_reduce_rule(const RankMap& ranks, const Tuning& tuning) {
  return few_bytes(ranks, widened(ranks, tuning));
}

Schedule build_doubling_all_reduce(const RankMap& ranks, const Problem& problem, const Tuning&,
                                   bool in_place) {
  ScheduleBuilder builder(problem, in_place);
  const int n = ranks.size, p = ranks.position;
  const std::size_t bytes = problem.bytes();
  const Piece output{Buffer::kOutput, 0};
  int power = 1;
  while (power * 2 <= n) power *= 2;
  // The first 2 * rest positions combine in pairs beforehand, so that a power of two ranks remains.
  const int rest = n - power;
  Piece partial{Buffer::kInput, 0};
  // Each result goes to a new place: the send of the old one need not have ended.
  const auto absorb = [&](int peer, bool peer_first) {
    const Piece arrived = builder.scratch(bytes), result = builder.scratch(bytes);
    builder.receive(peer, arrived, bytes);
    // Both sides combine in the order of positions: the same operands in the same order give the same bits.
    if (peer_first) {
      builder.combine(result, arrived, partial, bytes);
    } else {
      builder.combine(result, partial, arrived, bytes);
    }
    partial = result;
  };
  const bool folded = p < 2 * rest;
  if (folded && p % 2 == 0) {
    builder.send(ranks.at(p + 1), partial, bytes);
    builder.receive(ranks.at(p + 1), output, bytes);
    return builder.build(kDoublingAllReduce.name);
  }
  if (folded) absorb(ranks.at(p - 1), true);
  const int own = folded ? p / 2 : p - rest;
  const auto position_of = [&](int active) { return active < rest ? 2 * active + 1 : active + rest; };
  for (int distance = 1; distance < power; distance *= 2) {
    const int other = own ^ distance;
    builder.send(ranks.at(position_of(other)), partial, bytes);
    absorb(ranks.at(position_of(other)), other < own);
  }
  builder.copy(output, partial, bytes);
  if (problem.average && n > 1) builder.divide(output, bytes);
  if (folded) builder.send(ranks.at(p - 1), output, bytes);
  return builder.build(kDoublingAllReduce.name);
}

}  // namespace

constinit const Algorithm kDoublingAllReduce{.collective = Collective::kAllReduce,
                                             .name = "doubling",
                                             .applicable = doubling_all_reduce_applies,
                                             .build = build_doubling_all_reduce,
                                             .rule = doubling_all_reduce_rule};

}  // namespace tombolo::collectives
