#include "collectives/schedule/algorithms/direct_all_gather.h"

namespace tombolo::collectives {
namespace {

bool direct_all_gather_applies(const RankMap& ranks, const Problem& problem, const Tuning& tuning) {
  return problem.bytes() * static_cast<std::size_t>(ranks.size) <= tuning.small_bytes;
}

Schedule build_direct_all_gather(const RankMap& ranks, const Problem& problem, const Tuning&, bool in_place) {
  const int n = ranks.size, p = ranks.position;
  const std::size_t block = problem.bytes();
  ScheduleBuilder builder(in_place, static_cast<std::ptrdiff_t>(block) * ranks.rank);
  const auto output = [&](int rank) {
    return Piece{Buffer::kOutput, 0} + block * static_cast<std::size_t>(rank);
  };
  const Piece own{Buffer::kInput, 0};
  builder.copy(output(ranks.rank), own, block);
  for (int distance = 1; distance < n; ++distance) {
    builder.send(ranks.at(p + distance), own, block);
    builder.receive(ranks.at(p - distance), output(ranks.at(p - distance)), block);
  }
  return builder.build(kDirectAllGather.name);
}

}  // namespace

constinit const Algorithm kDirectAllGather{Collective::kAllGather, "direct", direct_all_gather_applies,
                                           build_direct_all_gather};

}  // namespace tombolo::collectives
