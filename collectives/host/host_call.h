// What one call of a collective among the ranks of one host asks for.
#pragma once

#include <cstddef>

#include "collectives/data/premultiply.h"
#include "collectives/host/host_parts.h"
#include "collectives/schedule/collective.h"

namespace tombolo::collectives {

/// A call's arguments. `problem.root` is a place in the group.
struct HostCall {
  Collective collective = Collective::kBarrier;
  Problem problem;
  DataType type = DataType::kInt8;
  ReduceOp op = ReduceOp::kSum;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  Factor factor{};  ///< of a problem that is premultiplied

  /// What `input` has for that rank, where it has a part for each.
  Chunk given_to(int rank) const noexcept {
    if (collective == Collective::kAllToAll)
      return chunk(problem.sent_offset_of(rank), problem.sent_count_of(rank));
    return chunk(problem.offset_of(rank), problem.count_of(rank));
  }
  /// Where `output` has room for what that rank gives, where it has a part of each.
  Chunk taken_from(int rank) const noexcept { return chunk(problem.offset_of(rank), problem.count_of(rank)); }
  /// Whether a rank knows only those parts that it has itself, or gets: of an all-to-all its own, of a gather
  /// or a scatter the root all and the others one.
  bool has_unknown_parts() const noexcept {
    return problem.uneven && collective != Collective::kAllGather && collective != Collective::kReduceScatter;
  }

 private:
  Chunk chunk(std::size_t offset, std::size_t count) const noexcept {
    return {offset * problem.element_bytes, count * problem.element_bytes};
  }
};

}  // namespace tombolo::collectives
