// What a device with a clock of its own did, in the timeline.
#include <array>

#include "trainer/pipeline/pipeline_trainer.h"

namespace tombolo::trainer {
namespace {

struct PassBar {
  std::string_view name;
  Activity activity;
};

/// By Pass.
constexpr std::array kPassBars{
    PassBar{"forward", Activity::kForward}, PassBar{"backward", Activity::kBackward},
    PassBar{"clear gradients", Activity::kUpdate}, PassBar{"gradient norm", Activity::kUpdate},
    PassBar{"update", Activity::kUpdate}};

}  // namespace

std::optional<Timed> PipelineTrainer::timed(std::string_view name, Activity activity, int micro_batch) {
  if (compute_->pass_clock() == planner::PassClock::kDevice) return std::nullopt;
  return std::optional<Timed>(std::in_place, timeline_, name, activity, micro_batch);
}

void PipelineTrainer::collect_pass_times(StageCompute::Gather gather, ForwardOf forward) {
  for (const PassTime& time : compute_->take_pass_times(gather)) {
    if (time.pass == Pass::kForward && forward == ForwardOf::kValidation) continue;
    const PassBar& bar = kPassBars.at(static_cast<std::size_t>(time.pass));
    // The device may make a step's update while the host has begun the next.
    const int step = time.pass == Pass::kUpdate ? updated_step_ : step_;
    timeline_.add_device_bar(step, bar.name, bar.activity, time.micro_batch, time.begin, time.end);
  }
}

void PipelineTrainer::finish_timeline() {
  collect_pass_times(StageCompute::Gather::kAll);
}

}  // namespace tombolo::trainer
