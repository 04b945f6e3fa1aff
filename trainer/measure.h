// How fast this rank computes: the number that the planner needs.
#pragma once

#include "base/clock.h"
#include "planner/model.h"

namespace tombolo::trainer {

/// Attained FLOP/s of one layer's forward and backward passes over `rows` rows, counted as the planner counts
/// them (Model::layer_forward_flops, backward = 2 x forward): a layer then takes rows x 3 x
/// layer_forward_flops / result seconds. The median of the passes made within `budget` (at least five, after
/// one to warm up). Throws kInvalidUsage for a shape out of range.
double measure_layer_flops_per_second(const planner::Model& model, int rows, Duration budget,
                                      int threads = 1);

}  // namespace tombolo::trainer
