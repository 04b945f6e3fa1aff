// Whether every pair of ranks can connect: a pair that cannot is a finding here, where it would be the end of
// a communicator.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "probe/assembly.h"

namespace tombolo::probe {

struct PairResult {
  int peer = 0;
  std::string peer_host;                  ///< empty when the peer has no NIC to offer
  std::optional<transport::Route> route;  ///< the way taken
  std::string error;                      ///< why there is none; empty where there is a route
};

/// Collective. Every pair connects at the same time, by `options.router`'s rules and `options.routing`; takes
/// as long as half of `options.deadline` where one cannot. Results for every other rank, by rank. The
/// connections are closed again. Throws only when a rank is gone.
std::vector<PairResult> connect_pairs(Assembly& assembly, const collectives::Options& options);

}  // namespace tombolo::probe
