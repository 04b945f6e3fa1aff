// The files that a training run writes about itself: bytes per link, timeline, and measured times.
#pragma once

#include <vector>

#include "base/json.h"
#include "collectives/engine/communicator.h"
#include "trainer/pipeline/pipeline_trainer.h"
#include "trainer/pipeline/timeline.h"

namespace tombolo::trainer {

/// The facts from which the files are made; every member is borrowed.
struct RunFacts {
  collectives::Communicator* world;  ///< null = a single rank
  const PipelineTrainer& trainer;
  const Timeline& timeline;
  const std::vector<collectives::LinkTraffic>& before;  ///< what was sent before the first step
  const std::vector<collectives::LinkTraffic>& after;   ///< and after the last
  const std::vector<double>& step_seconds;              ///< by step, on this rank
};

/// How long a rank stood still because of transfers from or to another.
struct LinkWait {
  int rank = 0, peer = 0;
  double seconds = 0;
};
/// Collective: returns the waits of all ranks on rank 0, the longest first; nothing elsewhere.
std::vector<LinkWait> gather_waits(const RunFacts& facts);

// Each is collective, and returns the file's content on rank 0; null elsewhere. Writing is left to the
// caller: on rank 0 it may take long, or fail, which the other ranks need not wait for.

/// Payload bytes by pair of NICs, over all steps.
Json traffic_file(const RunFacts& facts);
/// Chrome trace events.
Json timeline_file(const RunFacts& facts);
/// planner::MeasuredRun; the timeline must have kept its steps, and at least one.
Json measured_file(const RunFacts& facts);

}  // namespace tombolo::trainer
