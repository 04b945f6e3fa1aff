// The line that a run prints about a step.
#pragma once

#include <string>

#include "trainer/model/model.h"
#include "trainer/pipeline/pipeline_trainer.h"

namespace tombolo::trainer {

/// Decides which steps get a line, and writes it. Time left comes from the steps of the last half minute, so
/// that a slow first step does not count for ever.
class ProgressLines {
 public:
  /// `steps`: of the whole run; `peak`: FLOP/s of all devices, 0 = unknown (no utilisation is shown).
  ProgressLines(const Shape& shape, int steps, double peak) : shape_(shape), steps_(steps), peak_(peak) {}

  /// The line for a step, without line break; empty for a step that gets none. The first step made and the
  /// last get one, one that was interrupted or validated, and about one a second in between.
  std::string line(const StepReport& report);

 private:
  Shape shape_;
  int steps_;
  double peak_;
  double since_line_ = 0;
  double recent_seconds_ = 0, recent_steps_ = 0;
  bool any_ = false;
};

}  // namespace tombolo::trainer
