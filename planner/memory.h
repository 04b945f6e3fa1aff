// What each rank has to hold, by the schedule: counted as the bundled CPU trainer allocates it, not estimated
// by a factor. Another trainer of the same architecture that keeps the same values needs the same.
#pragma once

#include "planner/plan.h"

namespace tombolo::planner {

/// One rank of stage `stage`. `job` has every choice filled in; `layers` of the model are on the stage.
///  * parameters, gradients: Model::stage_parameters, one value each
///  * optimizer: 8 bytes per parameter (Adam's two moments), and 4 more for a master copy where values are
///    smaller than 4 bytes
///  * activations: what the backward pass needs, for each of the min(pipeline - stage, micro-batches)
///    micro-batches in flight: the stage's input, its layers, and on the last stage the final norm and the
///    logits
///  * buffers: what one backward pass works in, three boundary gradients (one being computed with, one being
///    sent, one arriving), and one more input, so that the next can arrive
RankMemory rank_memory(const Job& job, int stage, int stages, int layers);

/// Bytes that one layer keeps for its backward pass, for a micro-batch of `rows` rows.
std::uint64_t layer_activation_bytes(const Model& model, int rows);

}  // namespace tombolo::planner
