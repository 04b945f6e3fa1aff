#include "collectives/schedule/algorithms/two_level/relayed_all_to_all.h"

#include <cstdint>
#include <vector>

#include "collectives/schedule/algorithms/two_level/packed_parts.h"
#include "collectives/schedule/algorithms/two_level/relays.h"

namespace tombolo::collectives {
namespace {

/// Where parts differ no rank knows what others send to others.
bool relayed_all_to_all_possible(const RankMap& ranks, const Problem& problem) {
  return !problem.uneven && relays_may_save(ranks, problem);
}

bool relayed_all_to_all_applies(const RankMap& ranks, const Problem& problem, const Tuning& tuning) {
  return relayed_all_to_all_possible(ranks, problem) &&
         problem.bytes_of_all(ranks.size) <= tuning.small_bytes;
}

std::string relayed_all_to_all_rule(const RankMap&, const Tuning& tuning) {
  return where_relays_save(tuning.small_bytes);
}

Schedule build_relayed_all_to_all(const RankMap& ranks, const Problem& problem, const Tuning&,
                                  bool /*in_place*/) {
  ScheduleBuilder builder(problem, false);
  const Relays relays(ranks);
  const std::vector<int>& members = relays.members();
  const std::size_t bytes = problem.bytes();
  const auto part = [&](Buffer buffer, int rank) {
    return Part{Piece{buffer, 0} + problem.offset_of(rank) * problem.element_bytes, bytes};
  };
  builder.copy(part(Buffer::kOutput, ranks.rank).piece, part(Buffer::kInput, ranks.rank).piece, bytes);
  // What goes to a fellow member: its own part, and those of the ranks that it is the relay for.
  const auto for_member = [&](std::size_t member) {
    std::vector<Part> parts{part(Buffer::kInput, members[member])};
    for (const int rank : relays.served_by(member)) parts.push_back(part(Buffer::kInput, rank));
    return parts;
  };
  for (std::size_t turn = 1; turn < members.size(); ++turn) {
    const std::size_t mate = (relays.index() + turn) % members.size();
    const Part packed = pack(builder, for_member(mate));
    builder.send(members[mate], packed.piece, packed.bytes);
  }
  const std::vector<int> served = relays.served_by(relays.index());
  // By served rank, by member: where that member's part for it is.
  std::vector<std::vector<Part>> collected(served.size(), std::vector<Part>(members.size()));
  for (std::size_t i = 0; i < served.size(); ++i)
    collected[i][relays.index()] = part(Buffer::kInput, served[i]);
  for (std::size_t turn = 1; turn < members.size(); ++turn) {
    const std::size_t mate = (relays.index() + members.size() - turn) % members.size();
    const Piece arrived = builder.scratch((1 + served.size()) * bytes);
    builder.receive(members[mate], arrived, (1 + served.size()) * bytes);
    builder.copy(part(Buffer::kOutput, members[mate]).piece, arrived, bytes);
    for (std::size_t i = 0; i < served.size(); ++i) collected[i][mate] = {arrived + (1 + i) * bytes, bytes};
  }
  for (std::size_t i = 0; i < served.size(); ++i) {
    const Part packed = pack(builder, collected[i]);
    builder.send(served[i], packed.piece, packed.bytes);
  }
  for (const Relays::Other& other : relays.heard()) {
    std::vector<Part> theirs;
    for (const int rank : ranks.clusters[other.cluster]) theirs.push_back(part(Buffer::kOutput, rank));
    receive_packed(builder, other.relay, theirs);
  }
  return builder.build(kRelayedAllToAll.name);
}

Nanoseconds cost_of_relayed_all_to_all(const JobCosts& job, const Problem& problem, const Tuning&) {
  const std::uint64_t part = problem.bytes();
  const RelayCosts relays(job);
  return relays.inside((1 + relays.served()) * part) + relays.across(job.largest() * part) +
         job.memory(3 * job.ranks() * part);
}

}  // namespace

constinit const Algorithm kRelayedAllToAll{.collective = Collective::kAllToAll,
                                           .name = "relayed",
                                           .applicable = relayed_all_to_all_applies,
                                           .build = build_relayed_all_to_all,
                                           .help = "through one member of each cluster",
                                           .rule = relayed_all_to_all_rule,
                                           .possible = relayed_all_to_all_possible,
                                           .cost = cost_of_relayed_all_to_all};

}  // namespace tombolo::collectives
