// What all searches share: the facts that stay the same during a search, and how a plan is judged by its
// memory, by a lower bound and by simulation.
//
// This folder holds what strategies search with. Two descriptions of a plan are changed and scored: a Layout
// names every rank (layout.h), a Shape only how many devices of which pool (shape.h). Around them stand the
// grids (grid.h), the divisions of hosts among pipelines (host_division.h), the estimate (estimate.h) and
// annealing by it (shape_search.h).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "planner/cost/costs.h"
#include "planner/plan/cluster_view.h"
#include "planner/plan/placement.h"
#include "planner/planner.h"
#include "planner/search/contenders.h"
#include "planner/search/step_times.h"

namespace tombolo::planner {

/// The facts that stay the same while plans for a job are searched.
struct SearchContext {
  const ClusterView& view;        ///< of the routing that the plan assumes
  const ClusterView& kinds_view;  ///< of per-peer routing
  const std::vector<LauncherSlot>& launcher_slots;
  const PlanOptions& options;
  /// Plans whose step takes this long or longer are not wanted.
  double limit_seconds = std::numeric_limits<double>::infinity();
  /// Gets every plan that is simulated and about as fast as the best; null: nobody wants these.
  Contenders* contenders = nullptr;
  /// Remembers what simulations told; null: each plan is simulated whenever it is met.
  StepTimes* times = nullptr;

  /// The seconds up to which a simulation is worth its time where a plan of `best` seconds is known.
  double worth(double best) const noexcept { return contenders ? contenders->limit(best) : best; }
  /// The plan's step, simulated if that is not known yet. Nothing as simulate_if_linked() says.
  std::optional<StepTime> step_time(const Plan& plan, double limit = std::numeric_limits<double>::infinity(),
                                    std::string* why = nullptr) const {
    return times ? times->below(limit, plan, view, why) : simulate_if_linked(plan, view, limit, why);
  }
  /// Passes a plan with its prediction on.
  void offer(const Plan& plan) const {
    if (contenders) contenders->offer(plan, view);
  }
};

/// A lower bound of one pipeline's seconds: the ranks of each slot compute all their micro-batches, after the
/// first has passed the slots before and before the last has gone back through them.
class PipelineBound {
 public:
  PipelineBound(Schedule schedule, double micro_batches)
      : schedule_(schedule), micro_batches_(micro_batches) {}

  /// Adds the next slot, with the time that one micro-batch takes on all its chunks, and on the first of
  /// them: the first micro-batch passes only these on its way to a later slot, and the last on its way back.
  void add_slot(const PassSeconds& all_chunks, const PassSeconds& first_chunk);
  double seconds() const noexcept { return seconds_; }

 private:
  double outside(const PassSeconds& pass) const;

  Schedule schedule_;
  int slots_ = 0;
  double micro_batches_, seconds_ = 0;
  // The times of a micro-batch on the first chunks of the slots before: in all, of its forward pass, and of
  // its backward pass without the gradients of weights.
  double before_ = 0, forward_before_ = 0, input_before_ = 0;
};

/// A lower bound of a plan's seconds: those of its slowest pipeline (PipelineBound) with the optimizer, those
/// in which shared cores do all their work, and those in which a shared link passes on what stages send over
/// it.
double lower_bound(const Plan& plan, const ClusterView& view);

struct Missing {
  std::uint64_t bytes = 0;  ///< 0 where everything fits
  int rank = -1;
};
/// The bytes that the rank lacks that lacks most memory.
Missing missing_memory(const Plan& plan, const ClusterView& view);
/// The same where it is known what each rank needs.
Missing missing_memory(const Plan& plan, const std::vector<RankMemory>& needed, const ClusterView& view);

/// The bytes of a rank's device beside its reserve (planner/cost/reserve.h); nothing where its size is
/// unknown.
std::optional<std::uint64_t> available_on(const Job& job, const ClusterView& view,
                                          const RankPlacement& place);
/// Bytes that the device of a rank lacks for `needed`; 0 where it fits or its size is unknown.
std::uint64_t missing_on(const Job& job, const ClusterView& view, const RankPlacement& place,
                         std::uint64_t needed);

}  // namespace tombolo::planner
