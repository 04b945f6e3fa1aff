// Measuring under load: several pairs of hosts between two clusters, or all NICs of a host, at once.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "probe/player.h"
#include "probe/probe.h"

namespace tombolo::probe {

/// What the tournament found of single meetings.
class PairRates {
 public:
  /// Bytes per second from the left to the right, and back.
  void add(const Meeting& meeting, double there, double back);
  /// In the meeting's own order of the two ends; nothing where it was not measured.
  std::optional<std::pair<double, double>> find(const Meeting& meeting) const;

 private:
  using Key = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>;
  static Key key_of(const Meeting& meeting);
  std::map<Key, std::pair<double, double>> rates_;  // from the lower host to the higher, and back
};

/// Collective. Adds to `probed` what was found between the clusters of `cluster`, whose hosts are the
/// player's, and of ports that NICs of one host share; raises links that such a load shows to have been
/// measured too low. What seems to be shared is loaded up to four times, and the best counts: a moment's
/// disturbance is no finding.
void probe_under_load(Player& player, const topology::ClusterFile& cluster, const PairRates& rates,
                      ProbedLinks& probed);

}  // namespace tombolo::probe
