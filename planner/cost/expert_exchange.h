// What ranks that divide a layer's experts send each other.
#pragma once

#include <vector>

#include "planner/cost/slot_exchange.h"
#include "planner/model/compute_profile.h"
#include "planner/plan/cluster_view.h"
#include "planner/plan/plan.h"

namespace tombolo::planner {

/// An all-to-all that brings tokens to their experts, or back. With n replicas that divide the experts of a
/// layer evenly, and a load that is balanced, each sends every other X / n of X = T k H b bytes: k copies of
/// its T tokens, less what stays. Where it is not (Job::expert_load()), the one that gets most is waited for,
/// and each exchange counts as if all got as much. The exchange is for `rows` rows of each of the `members`;
/// of a group of one it is empty. `profile` says what share of their links ranks reach inside a host.
SlotExchange expert_exchange(const Job& job, const ClusterView& view, const ComputeProfile& profile,
                             const std::vector<SlotMember>& members, double rows);

/// How many such exchanges a pass of a layer makes: to the experts and back, and backward the same for the
/// gradients, after those of the forward pass where that is computed again.
int expert_exchanges(Recompute recompute, bool forward) noexcept;

}  // namespace tombolo::planner
