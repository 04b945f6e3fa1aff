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
          .host_memory = host != nullptr,
          .table = table.get(),
          .costs = costs ? &*costs : nullptr};
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

void Communicator::set_tuning(const std::string& text) {
  // Rank 0 gives it to the others before it looks at it, so that all find the same mistake.
  std::uint64_t bytes = text.size();
  broadcast(&bytes, &bytes, sizeof bytes, DataType::kInt8, 0);
  std::string agreed = rank() == 0 ? text : std::string(bytes, '\0');
  broadcast(agreed.data(), agreed.data(), agreed.size(), DataType::kInt8, 0);
  std::shared_ptr<const TuningTable> table;
  if (!agreed.empty()) {
    table = std::make_shared<const TuningTable>(TuningTable::decode(agreed, "the tuning table"));
    if (const std::string differs = difference(table->shape, state_->shape()); !differs.empty())
      fail(Cause::kInvalidUsage, "the tuning table: {}", differs);
  }
  const Call entered(*state_);
  state_->table = std::move(table);
  state_->last.reset();
  state_->schedules.clear();
}

}  // namespace tombolo::collectives
