// The way of a stage's gradients out of the arena, over which ranks sum them, and back.
#pragma once

#include <span>

#include "trainer/cuda/passes.h"
#include "trainer/cuda/stage_context.h"

namespace tombolo::trainer::cuda {

/// Called by another thread than the one that computes, but for order_back().
class GradientExchange {
 public:
  /// `passes` says when gradients are final.
  GradientExchange(StageContext& stage, const Passes& passes);

  /// As StageCompute::gradients_to_host() and gradients_from_host().
  std::span<float> to_host(const Bucket& bucket);
  void from_host(const Bucket& bucket);
  /// What is put on the compute stream from now on waits for the gradients that come back.
  void order_back() const { back_.order(Stream::kCompute); }

 private:
  StageContext& stage_;
  const Passes& passes_;
  Mark sent_, back_;
};

}  // namespace tombolo::trainer::cuda
