// The two processes of a candidate, which carry out what plugin_perf orders.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/descriptor.h"
#include "bench/plugin/candidates.h"

namespace tombolo::bench::plugin {

enum class Task : std::uint32_t { kVerify, kTrips, kStream, kEnd };

/// What the coordinator sends to both processes of a candidate.
struct Order {
  Task task = Task::kEnd;
  std::size_t size = 0, channels = 1, count = 0;
};
struct Answer;

/// The two processes of a candidate.
class Pair {
 public:
  explicit Pair(Candidate candidate);
  ~Pair();
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  /// Waits until both processes have loaded the candidate and connected. Throws their error.
  void greet();
  const Candidate& candidate() const { return candidate_; }

  /// Carries out an order; returns the time of the leading process, and the processor time of both.
  std::pair<double, double> order(const Order& order);

 private:
  Answer answer_of(std::size_t side);

  Candidate candidate_;
  std::array<pid_t, 2> pids_{};
  std::array<Descriptor, 2> orders_;
  bool failed_ = false;
};

}  // namespace tombolo::bench::plugin
