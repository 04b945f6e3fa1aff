// Which algorithm a collective takes, and the schedules that it made lately.
#include "collectives/engine/communicator_state.h"

namespace tombolo::collectives {
namespace {

/// A training loop repeats a handful of shapes; building a schedule costs up to a millisecond.
constexpr std::size_t kMostSchedules = 32;

}  // namespace

std::shared_ptr<const Schedule> Communicator::State::schedule_for(const ScheduleKey& key) {
  for (auto one = schedules.begin(); one != schedules.end(); ++one) {
    if (!(one->first == key)) continue;
    schedules.splice(schedules.begin(), schedules, one);
    return schedules.front().second;
  }
  const Algorithm& algorithm =
      choose_algorithm(key.collective, options.algorithm, rank_map, key.problem, options.tuning);
  auto schedule =
      std::make_shared<const Schedule>(algorithm.build(rank_map, key.problem, options.tuning, key.in_place));
  if (schedules.size() >= kMostSchedules) schedules.pop_back();
  schedules.emplace_front(key, std::move(schedule));
  return schedules.front().second;
}

}  // namespace tombolo::collectives
