#include "collectives/schedule/algorithms/dissemination_barrier.h"

namespace tombolo::collectives {
namespace {

Schedule build_dissemination_barrier(const RankMap& ranks, const Problem& problem, const Tuning&,
                                     bool /*in_place*/) {
  ScheduleBuilder builder(problem, false);
  for (int distance = 1; distance < ranks.size; distance *= 2) {
    // A message says that its sender has heard from all before it, so it waits for the earlier rounds.
    if (distance > 1) builder.fence();
    builder.send(ranks.at(ranks.position + distance), builder.scratch(1), 1);
    builder.receive(ranks.at(ranks.position - distance), builder.scratch(1), 1);
  }
  return builder.build(kDisseminationBarrier.name);
}

}  // namespace

constinit const Algorithm kDisseminationBarrier{Collective::kBarrier, "dissemination", always,
                                                build_dissemination_barrier};

}  // namespace tombolo::collectives
