// The numbers of parameters that the ranks of a pipeline slot hold.
#pragma once

#include <cstdint>

#include "planner/plan/plan.h"

namespace tombolo::planner {

/// The number of parameters on each rank of a slot.
std::uint64_t slot_parameters(const Plan& plan, int replica, int slot);
/// Those of them that are of experts which replicas divide (Job::expert_parameters()).
std::uint64_t slot_expert_parameters(const Plan& plan, int replica, int slot);

/// Of which of a slot's layers parameters are there.
enum class LayersHeld {
  kAll,
  kTwo,  ///< the one that computes and the next, where replicas share parameters: the two largest
};
/// Those of them that are in the matrices of layers.
std::uint64_t slot_matrix_parameters(const Plan& plan, int replica, int slot, LayersHeld held);
/// The parameters of two layers of a slot that are whole at once, the one that computes and the next: two
/// equal ones, or one and the embedding or the head.
std::uint64_t two_layers_parameters(const Plan& plan, int replica, int slot);

}  // namespace tombolo::planner
