#include "collectives/schedule/algorithms/dissemination_barrier.h"

#include <vector>

#include "collectives/schedule/algorithms/two_level/relays.h"

namespace tombolo::collectives {
namespace {

Schedule build_dissemination_barrier(const RankMap& ranks, const Problem& problem, const Tuning&,
                                     bool /*in_place*/) {
  ScheduleBuilder builder(problem, false);
  const bool far = relays_save(ranks);
  const std::vector<int>& near = far ? ranks.clusters[static_cast<std::size_t>(ranks.cluster)] : ranks.order;
  const auto n = near.size(), p = static_cast<std::size_t>(far ? ranks.index : ranks.position);
  for (std::size_t distance = 1; distance < n; distance *= 2) {
    // A message says that its sender has heard from all before it, so it waits for the earlier rounds.
    if (distance > 1) builder.fence();
    builder.send(near[(p + distance) % n], builder.scratch(1), 1);
    builder.receive(near[(p + n - distance) % n], builder.scratch(1), 1);
  }
  if (far) {
    builder.fence();
    const Relays relays(ranks);
    for (const int rank : relays.served_by(relays.index())) builder.send(rank, builder.scratch(1), 1);
    for (const Relays::Other& other : relays.heard()) builder.receive(other.relay, builder.scratch(1), 1);
  }
  return builder.build(kDisseminationBarrier.name);
}

}  // namespace

constinit const Algorithm kDisseminationBarrier{.collective = Collective::kBarrier,
                                                .name = "dissemination",
                                                .applicable = always,
                                                .build = build_dissemination_barrier,
                                                .help = "in rounds of doubled distance"};

}  // namespace tombolo::collectives
