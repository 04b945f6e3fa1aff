// The files that a training run leaves about itself: bytes per link, timeline, what was measured.
#pragma once

#include <string>
#include <vector>

#include "collectives/engine/communicator.h"
#include "trainer/pipeline/pipeline_trainer.h"
#include "trainer/pipeline/timeline.h"

namespace tombolo::trainer {

/// What the files are made of; every member is borrowed.
struct RunFacts {
  collectives::Communicator* world;  ///< null = a single rank
  const PipelineTrainer& trainer;
  const Timeline& timeline;
  const std::vector<collectives::LinkTraffic>& before;  ///< what was sent before the first step
  const std::vector<double>& step_seconds;              ///< by step, on this rank
};

// Each is collective; rank 0 writes. Throws kSystem.

/// Payload bytes by pair of NICs, over all steps.
void write_traffic(const std::string& path, const RunFacts& facts);
/// Chrome trace events.
void write_timeline(const std::string& path, const RunFacts& facts);
/// planner::MeasuredRun; the timeline must have kept its steps, and at least one.
void write_measured(const std::string& path, const RunFacts& facts);

}  // namespace tombolo::trainer
