// Measuring under load: several pairs of hosts between two clusters, or all NICs of a host, at once.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "probe/probe.h"
#include "probe/rounds/step_runner.h"

namespace tombolo::probe {

/// The rates that single pairs of NICs attained.
class PairRates {
 public:
  /// Adds the bytes per second from the left to the right, and back.
  void add(const NicPair& pair, double forward, double backward);
  /// Bytes per second from `pair`'s left to its right, and back; nothing where it was not measured.
  std::optional<std::pair<double, double>> find(const NicPair& pair) const;

 private:
  using Key = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>;
  static Key key_of(const NicPair& pair);
  std::map<Key, std::pair<double, double>> rates_;  // from the lower host to the higher, and back
};

/// Collective. Adds to `probed` the links that are shared between the clusters of `cluster`, whose hosts are
/// the runner's, and the ports that NICs of one host share; raises links that such a load shows to have been
/// measured too low. What appears to be shared is loaded up to four times and the best attempt counts, so
/// that a short disturbance causes no finding.
void probe_under_load(StepRunner& runner, const topology::ClusterFile& cluster, const PairRates& rates,
                      ProbedLinks& probed);

}  // namespace tombolo::probe
