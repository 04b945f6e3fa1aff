#include "planner/search/dedication.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "planner/model/index.h"

namespace tombolo::planner {

namespace {

/// An order with the parts of its cost: the hops of each pipeline, and the slowest ring edge of each stage.
class State {
 public:
  State(const DedicationCosts& costs, int stages, int replicas, WorkerOrder order)
      : costs_(costs), stages_(stages), replicas_(replicas), order_(std::move(order)) {
    hops_.resize(at(replicas));
    edges_.resize(at(stages));
    recompute();
  }

  const WorkerOrder& order() const noexcept { return order_; }
  double seconds() const noexcept { return seconds_; }

  void set(const WorkerOrder& order) {
    order_ = order;
    recompute();
  }

  /// Exchanges two slots and returns the new cost. Only their pipelines and stages are computed again.
  double swap(int one, int other) {
    std::swap(order_[at(one)], order_[at(other)]);
    for (const int slot : {one, other}) {
      hops_[at(slot % replicas_)] = hops(slot % replicas_);
      edges_[at(slot / replicas_)] = edge(slot / replicas_);
    }
    return sum_up();
  }

 private:
  int worker(int stage, int replica) const { return order_[at(stage * replicas_ + replica)]; }

  double hops(int replica) const {
    double sum = 0;
    for (int stage = 0; stage + 1 < stages_; ++stage) {
      const int here = worker(stage, replica), next = worker(stage + 1, replica);
      sum += costs_.hop(here, next) + costs_.hop(next, here);
    }
    return sum;
  }

  double edge(int stage) const {
    if (replicas_ < 2) return 0;
    double slowest = costs_.edge(worker(stage, replicas_ - 1), worker(stage, 0));
    for (int replica = 0; replica + 1 < replicas_; ++replica)
      slowest = std::max(slowest, costs_.edge(worker(stage, replica), worker(stage, replica + 1)));
    return slowest;
  }

  void recompute() {
    for (int replica = 0; replica < replicas_; ++replica) hops_[at(replica)] = hops(replica);
    for (int stage = 0; stage < stages_; ++stage) edges_[at(stage)] = edge(stage);
    sum_up();
  }

  double sum_up() { return seconds_ = *std::ranges::max_element(hops_) + *std::ranges::max_element(edges_); }

  const DedicationCosts& costs_;
  int stages_, replicas_;
  WorkerOrder order_;
  std::vector<double> hops_, edges_;
  double seconds_ = 0;
};

class Annealer {
 public:
  Annealer(const DedicationCosts& costs, int stages, int replicas, std::uint64_t seed)
      : costs_(costs), stages_(stages), replicas_(replicas), random_(seed) {}

  /// Runs simulated annealing from `state`, which ends as the best order that was found.
  void anneal(State& state, int rounds) {
    if (rounds < 1) return;
    double now = state.seconds(), best = now;
    WorkerOrder found = state.order(), next;
    // The scale is the loss of a typical move for the worse: at first a third of such moves are accepted, at
    // the end almost none.
    double temperature = typical_loss(state);
    const double cooling = std::pow(1e-3, 1.0 / rounds);
    for (int round = 0; round < rounds; ++round, temperature *= cooling) {
      const bool swapped = below(2) == 0;
      const int one = below(slots()), other = below(slots());
      if (one == other) continue;
      double then = 0;
      if (swapped) {
        then = state.swap(one, other);
      } else {
        next = state.order();
        found_before_ = next;
        move(next, one, other);
        state.set(next);
        then = state.seconds();
      }
      if (then > now && uniform() >= std::exp((now - then) / temperature)) {
        if (swapped)
          state.swap(one, other);
        else
          state.set(found_before_);
        continue;
      }
      now = then;
      if (now < best) {
        best = now;
        found = state.order();
      }
    }
    state.set(found);
  }

  /// Swaps two workers wherever that lowers the cost, until no swap does or `most` have been tried.
  void descend(State& state, std::int64_t most) const {
    double now = state.seconds();
    for (bool better = true; better;) {
      better = false;
      for (int i = 0; i < slots(); ++i)
        for (int j = i + 1; j < slots(); ++j) {
          if (most-- <= 0) return;
          const double then = state.swap(i, j);
          if (then < now * (1 - 1e-12)) {
            now = then;
            better = true;
          } else {
            state.swap(i, j);
          }
        }
    }
  }

 private:
  int slots() const noexcept { return stages_ * replicas_; }
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  /// The modulus is small, so its bias does not matter here.
  int below(int count) { return static_cast<int>(random_() % static_cast<std::uint64_t>(count)); }

  double typical_loss(State& state) {
    double sum = 0;
    int worse = 0;
    const double now = state.seconds();
    for (int i = 0; i < 32; ++i) {
      const int one = below(slots()), other = below(slots());
      if (one == other) continue;
      const double then = state.swap(one, other);
      state.swap(one, other);
      if (then <= now) continue;
      sum += then - now;
      ++worse;
    }
    return worse > 0 ? sum / worse : 1e-3 * now;
  }

  void move(WorkerOrder& order, int one, int other) {
    const auto first = order.begin() + std::min(one, other), last = order.begin() + std::max(one, other);
    switch (below(3)) {
      case 0:
        std::reverse(first, last + 1);
        return;
      case 1:
        std::rotate(first, first + 1, last + 1);
        return;
      default:
        std::rotate(first, last, last + 1);
    }
  }

  const DedicationCosts& costs_;
  int stages_, replicas_;
  std::mt19937_64 random_;
  WorkerOrder found_before_;
};

}  // namespace

double dedication_seconds(const DedicationCosts& costs, int stages, int replicas, const WorkerOrder& order) {
  return State(costs, stages, replicas, order).seconds();
}

WorkerOrder dedicate(const DedicationCosts& costs, int stages, int replicas, WorkerOrder order, int rounds,
                     std::uint64_t seed) {
  TOMBOLO_CHECK(order.size() == at(stages) * at(replicas), "order={} stages={} replicas={}", order.size(),
                stages, replicas);
  if (order.size() < 2) return order;
  Annealer annealer(costs, stages, replicas, seed);
  const std::int64_t looks = std::max<std::int64_t>(rounds, 1000);
  State best(costs, stages, replicas, order);
  annealer.descend(best, looks);
  // Several short runs from the same start find more than one long one, because chance decides to which local
  // minimum a run leads.
  constexpr int kRuns = 4;
  for (int run = 0; run < kRuns && rounds > 0; ++run) {
    State state(costs, stages, replicas, run % 2 == 0 ? order : best.order());
    annealer.anneal(state, rounds / kRuns);
    annealer.descend(state, looks);
    if (state.seconds() < best.seconds()) best.set(state.order());
  }
  return best.order();
}

}  // namespace tombolo::planner
