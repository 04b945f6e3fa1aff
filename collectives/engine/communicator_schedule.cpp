// Which algorithm a collective takes, and the schedules that it made lately.
#include "collectives/engine/communicator_state.h"

namespace tombolo::collectives {
namespace {

/// A training loop repeats a handful of shapes; building a schedule costs up to a millisecond.
constexpr std::size_t kMostSchedules = 32;

}  // namespace

Situation Communicator::State::situation() const {
  return {.ranks = rank_map,
          .tuning = options.tuning,
          .named = options.algorithm,
          .host_memory = host != nullptr};
}

Choice Communicator::State::choose(const ScheduleKey& key) {
  Choice choice = collectives::choose(key.collective, key.problem, situation());
  if (choice.through_host_memory() && !sees_host_memory())
    choice = collectives::choose(key.collective, key.problem, situation());
  last = {key.collective, key.problem, choice};
  return choice;
}

std::shared_ptr<const Schedule> Communicator::State::schedule_for(const ScheduleKey& key,
                                                                  const Choice& choice) {
  for (auto one = schedules.begin(); one != schedules.end(); ++one) {
    if (!(one->first == key)) continue;
    schedules.splice(schedules.begin(), schedules, one);
    return schedules.front().second;
  }
  auto schedule = std::make_shared<const Schedule>(
      choice.algorithm->build(rank_map, key.problem, choice.tuning, key.in_place));
  if (schedules.size() >= kMostSchedules) schedules.pop_back();
  schedules.emplace_front(key, std::move(schedule));
  return schedules.front().second;
}

}  // namespace tombolo::collectives
