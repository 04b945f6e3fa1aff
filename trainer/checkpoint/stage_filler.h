// Takes out of shards what one stage needs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trainer/checkpoint/shard.h"
#include "trainer/model/stage_compute.h"

namespace tombolo::trainer {

/// Fills a stage's state, copies of tensors that another stage owns included, from the shards of any layout.
/// `compute` is used by the calls and outlives the object. One thread at a time.
class StageFiller {
 public:
  explicit StageFiller(StageCompute& compute);

  /// Empty where these shards hold all three states of all that the stage needs; else the first that they
  /// lack, in words.
  std::string missing(const std::vector<ShardHeader>& shards) const;
  /// True where the stage needs something of this chunk of the shard's data.
  bool needs(const ShardHeader& shard, std::size_t chunk) const;
  /// Writes what the stage needs of it into its state.
  void take(const ShardHeader& shard, std::size_t chunk, std::span<const float> data);

 private:
  /// Calls visit(state, arena offset, index into the chunk, elements) for each run of elements of the chunk
  /// that the stage needs.
  template <typename Visit>
  void each_part(const ShardHeader& shard, std::size_t chunk, Visit visit) const;

  StageCompute& compute_;
  std::vector<Slice> slices_;  ///< by position
};

}  // namespace tombolo::trainer
