// How long the schedules of a collective would take among many ranks, on a model of their network. No byte
// moves: schedules are followed step by step in simulated time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/schedule/collective.h"
#include "collectives/schedule/network_costs.h"
#include "collectives/schedule/rank_map.h"
#include "collectives/schedule/schedule.h"

namespace tombolo::bench {

/// Clusters of hosts, joined by an uplink each. Rates are bytes per second, each way; times are seconds.
struct Network {
  int clusters = 4, hosts = 32;  ///< hosts of each cluster
  int ranks = 8;                 ///< of each host
  /// Where clusters or hosts are unlike, in place of these: the ranks of each host, by cluster.
  std::vector<std::vector<int>> unlike;
  double nic_rate = 12.5e9;     ///< of each host's NIC
  double uplink_rate = 12.5e9;  ///< of each cluster's uplink, which all its hosts share
  double memory_rate = 10e9;    ///< at which a rank combines, and passes bytes to another of its host
  double message_time = 2e-6;   ///< of a rank's processor, for each message that it sends or receives
  double latency_inside = 5e-6, latency_across = 1e-3;

  /// The ranks of each host, by cluster.
  std::vector<std::vector<int>> shape() const;
  int size() const;
  /// Where each rank is, in blocks: neighbours share a host.
  std::vector<collectives::RankLocation> locations() const;
};

/// "4x32x8" (clusters, hosts of each, ranks of each host), or cluster by cluster "2x8+1x4,6x8": two hosts of
/// eight ranks and one of four in the first. Throws kInvalidUsage.
void set_shape(Network& network, const std::string& text);

/// What the engine's cost model is told of such a network.
collectives::NetworkCosts costs_of(const Network& network);

struct SimulatedTime {
  double seconds = 0;         ///< until the last rank has ended
  std::size_t messages = 0;   ///< the most that a rank sends
  std::size_t peers = 0;      ///< the most that a rank exchanges messages with
  std::size_t in_flight = 0;  ///< the most messages under way to a rank at once
  std::size_t scratch = 0;    ///< the most bytes that a rank needs for itself
  double crossing = 0;        ///< the most bytes that leave a cluster
  /// Seconds for which the busiest of its kind works: below these the schedules cannot end, however they
  /// wait.
  struct Busy {
    double processor = 0;  ///< of a rank: messages, and what it copies and combines
    double nic = 0, uplink = 0;
  } busy;
};

/// Follows the schedules, one for each rank. A message is under way once both ends have posted it; it then
/// passes one after the other, each of which carries one message at a time in the order in which they come:
/// its sender's processor, between hosts the two NICs, between clusters the two uplinks too, and its
/// receiver's processor. Throws kInternal where no rank can go on.
SimulatedTime simulate(const Network& network, const std::vector<collectives::Schedule>& schedules);

/// A time below which no schedule can be: for what has to leave or reach a cluster and a host. `bytes` as the
/// benchmarks count them: of the whole vector. By bench/bound/.
double lower_bound(const Network& network, collectives::Collective collective, double bytes);

/// The same with what the bound leaves out: the latency of what has to cross, and that ranks copy what comes
/// from their own hosts and combine. What all ranks have to get, in the mean, comes over their NICs or is
/// copied, and a rank does one thing at a time.
double lower_bound_with_memory(const Network& network, collectives::Collective collective, double bytes);

}  // namespace tombolo::bench
