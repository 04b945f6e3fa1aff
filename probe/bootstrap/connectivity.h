// Tests whether every pair of ranks can connect. A pair that cannot is a finding here, while a communicator
// would fail as a whole.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "probe/bootstrap/rendezvous_group.h"

namespace tombolo::probe {

struct ConnectivityResult {
  int peer = 0;
  std::string peer_host;                  ///< empty when the peer has no NIC to offer
  std::optional<transport::Route> route;  ///< the route taken
  std::string error;                      ///< why there is none; empty where there is a route
};

/// Collective. All pairs connect at the same time, by `options.router`'s rules and `options.routing`; a pair
/// that cannot connect is given up after half of `options.deadline`. Returns a result for every other rank,
/// by rank. The connections are closed again. Throws only when a rank is gone.
std::vector<ConnectivityResult> check_connectivity(RendezvousGroup& group,
                                                   const collectives::Options& options);

}  // namespace tombolo::probe
