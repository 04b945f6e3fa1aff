// What a communicator knows of its network, in words and figures, for people who ask why it does what it
// does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/discovery/discover.h"
#include "collectives/schedule/link_facts.h"
#include "collectives/schedule/rank_map.h"
#include "topology/files/cluster_file.h"

namespace tombolo::collectives {

/// Where the knowledge is from of which hosts are near each other.
enum class KnownFrom : std::uint8_t {
  kOneHost,        ///< all ranks are on one
  kClusterFile,    ///< declared: a cluster file, or what stands for one
  kMeasured,       ///< by this communicator, or the one of which it is a part
  kKeptFile,       ///< measured by an earlier job
  kTwoHosts,       ///< by their number of ranks
  kTooManyHosts,   ///< nobody measured
  kOff,            ///< TOMBOLO_DISCOVER
  kSharedRouting,  ///< all ranks use one kind of NIC, and nobody measured
};

/// "cluster-file", "measured", ...
std::string_view known_from_name(KnownFrom from) noexcept;

struct ClusterFacts {
  std::string name;  ///< empty where it is the only one and nobody named it
  std::size_t hosts = 0, ranks = 0;
  std::size_t least_per_host = 0, most_per_host = 0;  ///< ranks
};

struct NetworkFacts {
  KnownFrom from = KnownFrom::kOff;
  std::string file;                    ///< with kClusterFile and kKeptFile, where this rank knows it
  std::vector<ClusterFacts> clusters;  ///< declared or found, in the order of their lowest ranks
  std::vector<LevelFacts> levels;      ///< those that there are
  double uplink_bytes_per_second = 0;  ///< as in LinkFacts; 0: unknown
  std::string text;                    ///< all but the levels' figures, as a sentence without its end
};

/// What a communicator that was set up has.
struct KnownNetwork {
  const std::vector<RankLocation>& locations;  ///< by rank, with islands in place of clusters
  bool declared = false;                       ///< the clusters are
  const Discovery& discovery;
  const topology::ClusterFile* cluster_file = nullptr;
  bool shared_routing = false;
};

/// Pure. Where clusters are declared, rates and latencies are those of the cluster file, as link_facts()
/// reads them.
NetworkFacts network_facts(const KnownNetwork& known);

/// Equal for two files that say the same. Never 0.
std::uint64_t digest_of(const topology::ClusterFile& file);

/// What messages cost on such a network: inside hosts as they typically do. Nothing where all ranks are on
/// one host, a rate or a latency between hosts is not known, or hosts have unlike numbers of ranks, with
/// which the model does not reckon.
std::optional<NetworkCosts> network_costs(const NetworkFacts& facts) noexcept;

}  // namespace tombolo::collectives
