#include "trainer/run/common_time_base.h"

#include <cstdint>

namespace tombolo::trainer {
namespace {

constexpr int kQuestions = 16;

std::int64_t nanoseconds(TimePoint time) {
  return time.time_since_epoch().count();
}

/// Rank 0's side: answers each of `rank`'s requests with the nanoseconds since `zero`.
void answer(collectives::Communicator& world, int rank, TimePoint zero) {
  for (int question = 0; question < kQuestions; ++question) {
    std::int64_t value = 0;
    world.receive(&value, sizeof value, rank);
    value = nanoseconds(Clock::steady().now()) - nanoseconds(zero);
    world.send(&value, sizeof value, rank);
  }
}

}  // namespace

TimePoint common_time_base(collectives::Communicator& world) {
  const TimePoint own = Clock::steady().now();
  if (world.rank() == 0) {
    for (int rank = 1; rank < world.size(); ++rank) answer(world, rank, own);
    return own;
  }
  TimePoint zero = own;
  Duration shortest = Duration::max();
  for (int question = 0; question < kQuestions; ++question) {
    const TimePoint asked = Clock::steady().now();
    std::int64_t since_zero = 0;
    world.send(&since_zero, sizeof since_zero, 0);
    world.receive(&since_zero, sizeof since_zero, 0);
    const Duration took = Clock::steady().now() - asked;
    if (took >= shortest) continue;
    shortest = took;
    zero = asked + took / 2 - Duration(since_zero);
  }
  return zero;
}

}  // namespace tombolo::trainer
