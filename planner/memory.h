// What each rank has to hold, by the schedule: counted, not estimated by a factor.
#pragma once

#include <cstdint>

#include "planner/plan.h"

namespace tombolo::planner {

/// One rank of stage `stage`. `layers` of the model are on it; `job` has every choice filled in.
///  * parameters, gradients: Model::stage_parameters, one value each
///  * optimizer: 8 bytes per parameter (Adam's two moments), and 4 more for a master copy where values are
///    smaller than 4 bytes
///  * activations: what the backward pass needs, for each of the min(pipeline - stage, micro-batches)
///    micro-batches in flight; on the last stage also logits
///  * buffers: what one backward pass works in, and one activation and one gradient each way at each border
RankMemory rank_memory(const Job& job, int stage, int stages, int layers);

/// Bytes that one layer keeps for its backward pass, for one row.
double layer_activation_bytes(const Model& model);

}  // namespace tombolo::planner
