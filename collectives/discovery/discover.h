// What a communicator does, while it is set up, to find out which of its hosts are near each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collectives/discovery/islands.h"
#include "collectives/rendezvous/bootstrap.h"
#include "transport/routing/router.h"

namespace tombolo::collectives {

/// What every rank knows of every other one.
struct RankOfHost {
  std::string host, addresses;  ///< addresses of its NICs
};

/// Waits for a key of the store that a rank sets. Throws, naming that rank, where it does not come.
using AwaitOfRank = std::function<std::vector<std::byte>(const std::string& key, int rank)>;

/// What came of it.
struct Discovery {
  enum class Source : std::uint8_t {
    kNone,  ///< nobody looked
    kTwoHosts,
    kTooManyHosts,
    kKept,      ///< in rank 0's file
    kMeasured,  ///< just now
  };

  Source source = Source::kNone;
  /// The name of each rank's island, "A", "B" and so on; empty: not found.
  std::vector<std::string> islands;
  Islands found;     ///< with kKept and kMeasured: the figures
  std::string file;  ///< with kKept, on rank 0
  /// Why the hosts have measured while calls were made; empty: they have not.
  std::string renewed = {};

  /// What the islands of these ranks attain, from each to each (Islands::between); empty: nobody knows.
  std::vector<std::vector<double>> between(const std::vector<int>& ranks) const;
};

/// Whether what an earlier job has kept will do.
enum class Known : std::uint8_t { kMayBeKept, kOnlyMeasured };

/// Collective over the ranks. One process of each host measures, unless rank 0 has a file that tells of these
/// hosts, and that will do; rank 0 decides, writes the file and a line in the log, and all ranks get its
/// decision. Two hosts measure nothing: each is an island where one has several ranks. Nothing is found where
/// all ranks are on one host, or on more than kMostHosts. `prefix`: of the keys in the store; `file` as in
/// IslandsFile. Throws what `await` does.
Discovery discover_islands(const std::vector<RankOfHost>& ranks, int rank, transport::Router& router,
                           Store& store, const AwaitOfRank& await, const std::string& prefix,
                           const std::string& file, Known known = Known::kMayBeKept);

/// Each connects with every other one, so more hosts do not measure.
inline constexpr std::size_t kMostHosts = 128;

}  // namespace tombolo::collectives
