// Runs ranges of seeds, in several processes.
#pragma once

#include <cstdint>
#include <string>

#include "tests/simulation/checks/defects.h"
#include "tests/simulation/under.h"

namespace tombolo::simulation {

struct Schedules {
  Under under = Under::kConnection;
  Over over = Over::kTcp;
  std::uint64_t first = 1, count = 1000;
  unsigned jobs = 1;             ///< processes; job j runs every jobs-th seed
  double seconds = 0;            ///< of processor time, after which a job begins no other seed; 0 = no limit
  std::uint64_t most_wrong = 5;  ///< a job stops after so many plans that went wrong
  Defect defect = Defect::kNone;
  bool each = false;  ///< print a line for each seed: what came of it, and its course
};

/// What all jobs together did.
struct Totals {
  std::uint64_t plans = 0, wrong = 0, connected = 0, failed = 0, tls = 0, messages = 0, breaks = 0,
                rejoins = 0, replayed = 0;
  double virtual_seconds = 0;
  double seconds = 0;  ///< of processor time, which machines that are shared tell better than a clock
  double per_core_hour() const noexcept {
    return seconds > 0 ? static_cast<double>(plans) / seconds * 3600 : 0;
  }
  std::string describe(const Schedules& of) const;
  /// One line of JSON.
  std::string encode(const Schedules& of) const;
};

/// Prints each seed whose plan goes wrong with the commands that repeat and shorten it; so it does with one
/// that ends its process, or holds it for a minute, which ends that job. SIGINT and SIGTERM let each job end
/// after its present seed.
Totals run_schedules(const Schedules& schedules);

/// The commands that repeat a seed's run and shorten its plan, for people.
std::string how_to_repeat(const Schedules& of, std::uint64_t seed);
/// The command that repeats a plan's run.
std::string how_to_repeat(const Schedules& of, const AnyPlan& plan);

}  // namespace tombolo::simulation
