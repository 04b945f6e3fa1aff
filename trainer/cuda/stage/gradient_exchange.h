// The way of a stage's gradients to other ranks: out of the arena and back, or summed where they are.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>

#include "trainer/cuda/stage/passes.h"
#include "trainer/cuda/stage/stage_context.h"

namespace tombolo::trainer::cuda {

/// Called by another thread than the one that computes, but for order_back().
class GradientExchange {
 public:
  /// `passes` says when gradients are final.
  GradientExchange(StageContext& stage, const Passes& passes);

  /// As StageCompute::gradients_to_host() and gradients_from_host().
  std::span<float> to_host(const Bucket& bucket);
  void from_host(const Bucket& bucket);
  /// As StageCompute::join_group().
  std::unique_ptr<StageGroup> join(const GroupId& id, const GroupMember& member);
  /// What is put on the compute stream from now on waits for the gradients that come back, and for sums.
  void order_back() const {
    back_.order(Stream::kCompute);
    summed_.order(Stream::kCompute);
  }

 private:
  class Group;

  StageContext& stage_;
  const Passes& passes_;
  Mark sent_, back_, summed_;
};

}  // namespace tombolo::trainer::cuda
