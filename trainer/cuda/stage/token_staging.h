// The way of a micro-batch's tokens to the device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/cuda/operations/token_runs.h"
#include "trainer/cuda/stage/stage_context.h"

namespace tombolo::trainer::cuda {

/// Blocks of page-locked memory, in a ring, so that the host may run ahead. On a stage that is neither first
/// nor last it does nothing.
class TokenStaging {
 public:
  explicit TokenStaging(StageContext& stage);

  /// Checks tokens and targets, and puts them into a block from which no copy is under way.
  void stage(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets);
  /// Copies what was staged last on stream kFromHost, whose mutex the caller holds.
  void copy_to(std::int32_t* device_block);

 private:
  StageContext& stage_;
  TokenRuns runs_;
  std::vector<Staged<std::int32_t>> ring_;
  std::size_t next_ = 0;
};

}  // namespace tombolo::trainer::cuda
