// Which algorithm a collective takes.
#include "collectives/engine/communicator_state.h"
#include "collectives/schedule/algorithms/all_gather.h"
#include "collectives/schedule/algorithms/all_to_all.h"
#include "collectives/schedule/algorithms/barrier.h"
#include "collectives/schedule/algorithms/broadcast.h"
#include "collectives/schedule/algorithms/doubling_all_reduce.h"
#include "collectives/schedule/algorithms/reduce.h"
#include "collectives/schedule/algorithms/reduce_scatter.h"
#include "collectives/schedule/algorithms/ring_all_reduce.h"
#include "collectives/schedule/algorithms/two_level_all_reduce.h"

namespace tombolo::collectives {
namespace {

/// A training loop repeats a handful of shapes; building a schedule costs up to a millisecond.
constexpr std::size_t kMostSchedules = 32;

}  // namespace

bool Communicator::State::use_two_level() const {
  switch (options.algorithm) {
    case Algorithm::kRing:
      return false;
    case Algorithm::kTwoLevel:
      return true;
    case Algorithm::kAuto:
      break;
  }
  // Clusters are declared because what joins them is slower than what is inside. With shared routing nothing
  // is faster inside, and a ring puts no more than two levels on any NIC.
  return layout.clusters.size() > 1 && options.routing == Routing::kPerPeer;
}

const Schedule& Communicator::State::schedule_for(const ScheduleKey& key) {
  for (auto one = schedules.begin(); one != schedules.end(); ++one) {
    if (!(one->first == key)) continue;
    schedules.splice(schedules.begin(), schedules, one);
    return schedules.front().second;
  }
  const auto& [collective, problem, in_place] = key;
  Schedule schedule;
  switch (collective) {
    case Collective::kAllReduce: {
      const std::size_t bytes = problem.count * problem.element_bytes;
      // Between two ranks doubling moves no more bytes than a ring, in half as many steps.
      const std::size_t small =
          layout.size == 2 ? 4 * options.tuning.small_bytes : options.tuning.small_bytes;
      if (bytes <= small && options.algorithm == Algorithm::kAuto) {
        schedule = doubling_all_reduce(layout, problem, options.tuning, in_place);
      } else if (use_two_level()) {
        schedule = two_level_all_reduce(layout, problem, options.tuning, in_place);
      } else {
        schedule = ring_all_reduce(layout, problem, options.tuning, in_place);
      }
      break;
    }
    case Collective::kReduceScatter:
      schedule = collectives::reduce_scatter(layout, problem, options.tuning, in_place);
      break;
    case Collective::kAllGather:
      schedule = collectives::all_gather(layout, problem, options.tuning, in_place);
      break;
    case Collective::kBroadcast:
      schedule = collectives::broadcast(layout, problem, options.tuning, in_place);
      break;
    case Collective::kReduce:
      schedule = collectives::reduce(layout, problem, options.tuning, in_place);
      break;
    case Collective::kAllToAll:
      schedule = collectives::all_to_all(layout, problem, options.tuning);
      break;
    case Collective::kBarrier:
      schedule = collectives::barrier(layout);
      break;
  }
  if (schedules.size() >= kMostSchedules) schedules.pop_back();
  schedules.emplace_front(key, std::move(schedule));
  return schedules.front().second;
}

}  // namespace tombolo::collectives
