// Decides how many layers each pipeline stage takes.
#pragma once

#include <vector>

#include "planner/model/framework.h"
#include "planner/plan/plan.h"

namespace tombolo::planner {

/// Holmes' self-adapting partition. `speeds[i]` > 0 is the attained speed of group i (any unit), and
/// `stages[i]` >= 1 the number of stages that it fills. Group i gets floor(alpha * share * layers) layers, or
/// one more where less is lacking than the noise of measuring (a hundredth, and at most a twentieth of a
/// layer); the last group gets the remainder. Inside a group the stages are equal up to one layer, and
/// earlier ones take more. No stage is left empty. Returns layers by stage; needs layers >= sum of stages.
std::vector<int> split_by_speed(int layers, const std::vector<double>& speeds, const std::vector<int>& stages,
                                double alpha);

/// The split nearest to `layers` (least squares) that the framework can express, of as many layers in as many
/// stages; `layers` itself where it can express that one, or none. Neither stage is left empty.
std::vector<int> nearest_split(const std::vector<int>& layers, const FrameworkTraits& can);

/// Stages that tile the layers in order.
std::vector<Stage> to_stages(const std::vector<int>& layers_per_stage);

}  // namespace tombolo::planner
