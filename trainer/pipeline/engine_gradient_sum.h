// Sums of gradients by the collective engine, in host memory.
#pragma once

#include <span>
#include <vector>

#include "collectives/engine/communicator.h"
#include "trainer/model/stage_compute.h"
#include "trainer/pipeline/gradient_sum.h"
#include "trainer/pipeline/timeline.h"

namespace tombolo::trainer {

class EngineGradientSum final : public GradientSum {
 public:
  /// `data` joins this stage's ranks, one per replica; null with one replica. `tied` joins the first and the
  /// last stage of this replica; null where this stage shares nothing. All outlive the object.
  EngineGradientSum(collectives::Communicator* data, collectives::Communicator* tied, StageCompute& compute,
                    Timeline& timeline);

  void start(const Bucket& bucket) override;
  void finish() override;
  void abort(const std::string& reason) noexcept override;

 private:
  /// `values`: the bucket's gradients, in host memory.
  void start_exchange(const Bucket& bucket, std::span<float> values);

  collectives::Communicator* data_;
  collectives::Communicator* tied_;
  StageCompute& compute_;
  Timeline& timeline_;
  Bucket embedding_bucket_;          ///< the one that holds the shared embedding
  std::span<float> embedding_;       ///< its gradient, in host memory while it is exchanged
  std::size_t embedding_begin_ = 0;  ///< its arena offset
  std::vector<float> other_embedding_;
  collectives::Work sending_, receiving_;
};

}  // namespace tombolo::trainer
