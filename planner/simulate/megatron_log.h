// What Megatron-LM's training log says of its steps.
#pragma once

#include <istream>
#include <string>

#include "planner/simulate/measured_run.h"

namespace tombolo::planner {

/// Reads the lines that Megatron-LM prints every --log-interval steps, whatever stands before them (ranks'
/// prefixes, times): "elapsed time per iteration (ms)", in the mean of the interval, counts as one step, and
/// where they are there, "throughput per GPU (TFLOP/s/GPU)" and "global batch size". Where the batch grows
/// during the run, the steps with the last one count. The run has no ranks, for the log tells nothing of
/// them. Throws kInvalidUsage, naming `name` and the line, where a figure is not a number > 0, and where no
/// line has a step.
MeasuredRun read_megatron_log(std::istream& log, const std::string& name);

}  // namespace tombolo::planner
