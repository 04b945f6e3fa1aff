// Which part of a stage's state a rank writes into its shard.
#pragma once

#include <cstddef>
#include <vector>

#include "trainer/checkpoint/shard.h"
#include "trainer/model/stage_parameters.h"

namespace tombolo::trainer {

/// A run of elements that lies in one piece both in the stage's arena and in a checkpoint's order.
struct SharePiece {
  std::size_t offset = 0;    ///< in the arena, in floats
  std::size_t position = 0;  ///< in a checkpoint's order
  std::size_t elements = 0;
  bool operator==(const SharePiece&) const = default;
};

/// The part of replica `replica` of `replicas`: the stage's slices, without copies of tensors that another
/// stage owns, laid end to end and cut into pieces of equal length (but for one element). Together the
/// replicas' parts hold every element once. Pure.
std::vector<SharePiece> stage_share(const StageParameters& layout, int replica, int replicas);

/// The pieces of a shard that holds all three states of that part, one state after the other.
std::vector<ShardPiece> shard_pieces(const std::vector<SharePiece>& share);

}  // namespace tombolo::trainer
