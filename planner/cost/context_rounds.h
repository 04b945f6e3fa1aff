// What replicas that divide a row's tokens send each other in a pass, where they are on several hosts.
#pragma once

#include <vector>

#include "planner/cost/layer_seconds.h"
#include "planner/cost/slot_exchange.h"

namespace tombolo::planner {

/// A part of a layer's exchange: all of it ends before a replica goes on.
struct ContextRound {
  double times = 1;   ///< so often what ContextRounds::once sends
  double waits = 1;   ///< so often its wait
  double beside = 0;  ///< seconds of the layer that are computed meanwhile
};

/// The exchanges of one layer's passes. With c replicas, and x the time in which all have passed a block of
/// keys and values on:
///  * ring: c - 1 blocks beside the attention to c - 1 of the c blocks; backward twice as many, since
///    gradients go with them, and one more takes the gradients home, beside nothing;
///  * all-to-all: queries, keys, values and outputs, in four exchanges, which count as one; nothing is
///  beside.
/// A pass that computes the forward pass again makes its exchange again.
struct ContextRounds {
  SlotExchange once;
  std::vector<ContextRound> forward, backward;

  bool crosses() const noexcept { return once.crosses(); }
};

/// The rounds for `rows` rows of each of the `members`, whose cores take `core`; none for a group of one.
ContextRounds context_rounds(const Job& job, const ClusterView& view, const ComputeProfile& profile,
                             const std::vector<SlotMember>& members, double rows, const CoreSeconds& core);

}  // namespace tombolo::planner
