// The files that a training run writes about itself: bytes per link, timeline, and measured times.
#pragma once

#include <string>
#include <vector>

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
  const std::vector<double>& step_seconds;              ///< by step, on this rank
};

// Each of these functions is collective, and rank 0 writes the file. They throw kSystem.

/// Writes the payload bytes by pair of NICs, over all steps.
void write_traffic(const std::string& path, const RunFacts& facts);
/// Writes Chrome trace events.
void write_timeline(const std::string& path, const RunFacts& facts);
/// Writes a planner::MeasuredRun. The timeline must have kept its steps, and at least one.
void write_measured(const std::string& path, const RunFacts& facts);

}  // namespace tombolo::trainer
