// What a communicator does, while it is set up, to find out which of its hosts are near each other.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "collectives/discovery/islands.h"
#include "collectives/rendezvous/bootstrap.h"
#include "transport/routing/router.h"

namespace tombolo::collectives {

/// What every rank knows of every other one.
struct RankOfHost {
  std::string host, addresses;  ///< addresses of its NICs
};

/// Collective over the ranks. One process of each host measures, unless rank 0 has a file that tells of these
/// hosts; rank 0 decides, writes the file and a line in the log, and all ranks get its decision: the name of
/// each rank's island, "A", "B" and so on. Where no more than two hosts are equally far from each other, each
/// that has several ranks is an island. Nothing where all ranks are on one host. `prefix`: of the keys in the
/// store; `file` as in IslandsFile. Throws where ranks do not come within the deadline.
std::vector<std::string> discover_islands(const std::vector<RankOfHost>& ranks, int rank,
                                          transport::Router& router, Store& store, const std::string& prefix,
                                          const std::string& file, Deadline deadline);

}  // namespace tombolo::collectives
