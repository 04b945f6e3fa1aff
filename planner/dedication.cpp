#include "planner/dedication.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.h"
#include "planner/index.h"

namespace tombolo::planner {

namespace {

class Annealer {
 public:
  Annealer(const DedicationCosts& costs, int stages, int replicas, std::uint64_t seed)
      : costs_(costs), stages_(stages), replicas_(replicas), random_(seed) {}

  double seconds(const WorkerOrder& order) const {
    return dedication_seconds(costs_, stages_, replicas_, order);
  }

  WorkerOrder anneal(WorkerOrder order, int rounds) {
    // A tenth of the whole is a bad move at first; at the end only improvements are taken.
    double now = seconds(order), best = now, temperature = 0.1 * now;
    const double cooling = rounds > 0 ? std::pow(1e-4, 1.0 / rounds) : 1;
    WorkerOrder found = order, next;
    for (int round = 0; round < rounds; ++round, temperature *= cooling) {
      next = order;
      move(next);
      const double then = seconds(next);
      if (then > now && uniform() >= std::exp((now - then) / temperature)) continue;
      order.swap(next);
      now = then;
      if (now < best) {
        best = now;
        found = order;
      }
    }
    return found;
  }

  /// Swaps of two until none helps.
  WorkerOrder descend(WorkerOrder order) const {
    double now = seconds(order);
    for (bool better = true; better;) {
      better = false;
      for (std::size_t i = 0; i < order.size(); ++i)
        for (std::size_t j = i + 1; j < order.size(); ++j) {
          std::swap(order[i], order[j]);
          const double then = seconds(order);
          if (then < now * (1 - 1e-12)) {
            now = then;
            better = true;
          } else {
            std::swap(order[i], order[j]);
          }
        }
    }
    return order;
  }

 private:
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  std::ptrdiff_t below(std::size_t count) {
    return static_cast<std::ptrdiff_t>(random_() %
                                       count);  // the bias of a small modulus does not matter here
  }

  void move(WorkerOrder& order) {
    const std::size_t size = order.size();
    std::ptrdiff_t first = below(size), last = below(size);
    if (first > last) std::swap(first, last);
    const auto begin = order.begin();
    switch (below(4)) {
      case 0:
        std::swap(begin[first], begin[last]);
        return;
      case 1:
        std::reverse(begin + first, begin + last + 1);
        return;
      case 2:
        std::rotate(begin + first, begin + first + 1, begin + last + 1);
        return;
      default:
        std::rotate(begin + first, begin + last, begin + last + 1);
    }
  }

  const DedicationCosts& costs_;
  int stages_, replicas_;
  std::mt19937_64 random_;
};

}  // namespace

double dedication_seconds(const DedicationCosts& costs, int stages, int replicas, const WorkerOrder& order) {
  double hops = 0, edge = 0;
  const auto worker = [&](int stage, int replica) { return order[at(stage * replicas + replica)]; };
  for (int replica = 0; replica < replicas; ++replica) {
    double sum = 0;
    for (int stage = 0; stage + 1 < stages; ++stage) {
      const int here = worker(stage, replica), next = worker(stage + 1, replica);
      sum += costs.hop(here, next) + costs.hop(next, here);
    }
    hops = std::max(hops, sum);
  }
  if (replicas > 1)
    for (int stage = 0; stage < stages; ++stage)
      for (int replica = 0; replica < replicas; ++replica)
        edge = std::max(edge, costs.edge(worker(stage, replica), worker(stage, (replica + 1) % replicas)));
  return hops + edge;
}

WorkerOrder dedicate(const DedicationCosts& costs, int stages, int replicas, WorkerOrder order, int rounds,
                     std::uint64_t seed) {
  TOMBOLO_CHECK(order.size() == at(stages) * at(replicas), "order={} stages={} replicas={}", order.size(),
                stages, replicas);
  if (order.size() < 2) return order;
  Annealer annealer(costs, stages, replicas, seed);
  WorkerOrder descended = annealer.descend(order);
  WorkerOrder annealed = annealer.descend(annealer.anneal(std::move(order), rounds));
  return annealer.seconds(annealed) < annealer.seconds(descended) ? annealed : descended;
}

}  // namespace tombolo::planner
