// Sums of gradients by the devices themselves: nothing of them goes through host memory.
#pragma once

#include <memory>

#include "collectives/engine/communicator.h"
#include "trainer/model/stage_compute.h"
#include "trainer/pipeline/gradient_sum.h"
#include "trainer/pipeline/timeline.h"

namespace tombolo::trainer {

class DeviceGradientSum final : public GradientSum {
 public:
  /// Collective over both communicators, which are EngineGradientSum's and pass the groups' ids on; they are
  /// not used afterwards. `deadline` as GroupMember has it. The stage and the timeline outlive the object.
  DeviceGradientSum(collectives::Communicator* data, collectives::Communicator* tied, StageCompute& compute,
                    Duration deadline, Timeline& timeline);

  void start(const Bucket& bucket) override;
  void finish() override;
  void abort(const std::string& reason) noexcept override;

 private:
  Timeline& timeline_;
  Bucket embedding_;  ///< the shared one's place in the arena
  std::unique_ptr<StageGroup> data_, tied_;
};

}  // namespace tombolo::trainer
