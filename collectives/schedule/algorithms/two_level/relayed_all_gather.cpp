#include "collectives/schedule/algorithms/two_level/relayed_all_gather.h"

#include <cstdint>
#include <vector>

#include "collectives/schedule/algorithms/two_level/packed_parts.h"
#include "collectives/schedule/algorithms/two_level/relays.h"

namespace tombolo::collectives {
namespace {

bool relayed_all_gather_applies(const RankMap& ranks, const Problem& problem, const Tuning& tuning) {
  return relays_save(ranks) && problem.bytes_of_all(ranks.size) <= few_for_each(ranks, tuning);
}

std::string relayed_all_gather_rule(const RankMap& ranks, const Tuning& tuning) {
  return where_relays_save(few_for_each(ranks, tuning));
}

Schedule build_relayed_all_gather(const RankMap& ranks, const Problem& problem, const Tuning&,
                                  bool in_place) {
  const std::size_t element = problem.element_bytes;
  ScheduleBuilder builder(problem, in_place,
                          static_cast<std::ptrdiff_t>(problem.offset_of(ranks.rank) * element));
  const Relays relays(ranks);
  const std::vector<int>& members = relays.members();
  const auto part = [&](int rank) {
    return Part{Piece{Buffer::kOutput, 0} + problem.offset_of(rank) * element,
                problem.count_of(rank) * element};
  };
  const auto parts_of = [&](const std::vector<int>& some) {
    std::vector<Part> parts;
    for (const int rank : some) parts.push_back(part(rank));
    return parts;
  };
  const Piece own{Buffer::kInput, 0};
  builder.copy(part(ranks.rank).piece, own, problem.bytes());
  for (std::size_t turn = 1; turn < members.size(); ++turn) {
    const int to = members[(relays.index() + turn) % members.size()];
    const int from = members[(relays.index() + members.size() - turn) % members.size()];
    builder.send(to, own, problem.bytes());
    builder.receive(from, part(from).piece, part(from).bytes);
  }
  if (const std::vector<int> served = relays.served_by(relays.index()); !served.empty()) {
    const Part all = pack(builder, parts_of(members));
    for (const int rank : served) builder.send(rank, all.piece, all.bytes);
  }
  for (const Relays::Other& other : relays.heard())
    receive_packed(builder, other.relay, parts_of(ranks.clusters[other.cluster]));
  return builder.build(kRelayedAllGather.name);
}

Nanoseconds cost_of_relayed_all_gather(const JobCosts& job, const Problem& problem, const Tuning&) {
  const std::uint64_t part = problem.bytes_of_all(static_cast<int>(job.ranks())) / job.ranks();
  const RelayCosts relays(job);
  return relays.inside(part) + relays.across(job.largest() * part) + job.memory(job.ranks() * part);
}

}  // namespace

constinit const Algorithm kRelayedAllGather{.collective = Collective::kAllGather,
                                            .name = "relayed",
                                            .applicable = relayed_all_gather_applies,
                                            .build = build_relayed_all_gather,
                                            .help = "through one member of each cluster",
                                            .rule = relayed_all_gather_rule,
                                            .possible = relays_may_save,
                                            .cost = cost_of_relayed_all_gather};

}  // namespace tombolo::collectives
