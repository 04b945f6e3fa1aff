// Measuring: links between ranks by a tournament of disjoint pairs over the real transports, compute per
// device.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "collectives/engine/communicator.h"
#include "probe/assembly.h"
#include "probe/gpu_speed.h"
#include "probe/islands.h"
#include "topology/files/cluster_file.h"

namespace tombolo::probe {

struct LinkProbeOptions {
  std::size_t bytes = 0;  ///< per measurement; 0 = chosen so that each lasts about `seconds_per_pair`
  /// 0 = 0.3, and less (down to 0.05) where all steps together would take more than about 10 s
  double seconds_per_pair = 0;
  /// Steps; `total` may grow. Rank 0 only; may be empty.
  std::function<void(int done, int total)> progress;
};

/// Two NICs of one fabric that could not be measured.
struct LinkFailure {
  std::string from_host, from_nic, to_host, to_nic;
  std::string fabric;
  std::string reason;  ///< in the words of the rank that could not
};

/// Disjoint pairs of hosts of two clusters, or of one and several others, over one fabric, one direction:
/// bytes per second.
struct LoadFinding {
  std::string name;  ///< "A to B", "A to B+C"
  std::size_t pairs = 0;
  double alone_bytes_per_second = 0;     ///< of one pair by itself
  double together_bytes_per_second = 0;  ///< of all of them at once, the sum
  /// Among ProbedLinks::shared by this name, unless a cluster shares that one with several others, which is
  /// there then.
  bool shared = false;
};

struct ProbedLinks {
  std::vector<topology::Link> links;
  std::vector<LinkFailure> failures;  ///< each pair once; neither direction is among the links
  std::vector<Island> islands;        ///< as pairs of hosts reach each other while the others are busy too
  std::vector<LoadFinding> loads;
  std::vector<topology::SharedLink> shared;  ///< between clusters, and ports that NICs of one host share
};

/// Collective over `options.identity`. For every pair of ranks' hosts and every NIC pair of equal fabric:
/// latency and attained bandwidth, both directions at once, rounds of disjoint pairs. Then, for each two
/// clusters and fabric, one pair alone and as many disjoint ones as there are at once; where one cluster
/// shares links with several others, pairs with all of these at once; and of each host all NICs at once:
/// links and ports that are shared. Hosts without a cluster are taken to be of their islands'. A pair that
/// does not connect is given up after 10 s (less with a short Options::deadline), and the rest goes on. The
/// same on every rank.
ProbedLinks probe_links(const collectives::Options& options, const LinkProbeOptions& probe);
/// The same over a communicator that is there already; its own routes need not be those of `options`.
ProbedLinks probe_links(collectives::Communicator& communicator, const collectives::Options& options,
                        const LinkProbeOptions& probe);

/// The options of a communicator for the probe itself, which must not need the links that are yet to be found
/// out: over the Ethernet that all share where every rank has such a NIC, else over `options`' own ways.
/// Collective over `assembly`, which keeps the store.
collectives::Options common_ground(Assembly& assembly, const collectives::Options& options);

/// Where the hosts of a fabric fall into groups between which every pair failed, they are several fabrics
/// under one name: gives each group one of its own and declares them unreachable from each other. The fabric
/// without a name, which all TCP NICs share, stays. Returns a sentence for each, and for each failure that
/// remains unexplained one in `unexplained`. Pure.
std::vector<std::string> separate_fabrics(topology::ClusterFile& cluster,
                                          const std::vector<LinkFailure>& failures,
                                          std::vector<std::string>& unexplained);

struct ComputeProbeOptions {
  /// Rows, inner and columns of the matrix product that is timed on a core.
  int rows = 512, inner = 256, columns = 1024;
  double seconds = 0.5;    ///< for each of the things that are timed
  std::size_t memory = 0;  ///< bytes that a core streams through; 0 = well beyond its caches (triad_bytes())
  /// The GPU that this rank is to measure in place of a core, as gpu_of() says.
  std::optional<GpuChoice> gpu = {};
};

/// What a device attains while nothing else does anything, or while the others do the same.
struct DeviceSpeed {
  double flops_per_second = 0;          ///< of a core in float32, of a GPU in bfloat16
  double memory_bytes_per_second = 0;   ///< STREAM's triad
  double float32_flops_per_second = 0;  ///< of a core the same as the first
};

struct ComputeResult {
  DeviceSpeed alone;     ///< one rank at a time
  DeviceSpeed together;  ///< all ranks at once: shows ranks that share processors or memory
  bool gpu = false;
  std::string problem;  ///< why a GPU was not measured; empty where it was
};

/// The GPU that belongs to this rank: of its host's devices the one of its place among the ranks there;
/// nothing where that is no GPU.
std::optional<GpuChoice> gpu_of(const collectives::Communicator& communicator, const topology::Host& mine);

/// Collective. Returns this rank's result. A GPU that cannot be measured is told in the result.
ComputeResult probe_compute(collectives::Communicator& communicator, const ComputeProbeOptions& options);

/// Collective. The cluster file of the ranks' hosts: `known` where there is one, else made from the hosts
/// that the ranks are on, and their islands for clusters; with what was `measured` in place of its own links,
/// and what every rank's device attains: together
/// with the others, as it trains, but alone where the file says that the hosts share a processor, since there
/// the simulator shares it out. The same on every rank.
topology::ClusterFile describe(collectives::Communicator& communicator, const topology::Host& mine,
                               const std::optional<topology::ClusterFile>& known, const ProbedLinks& measured,
                               const ComputeResult& compute);

/// The tournament: rounds of disjoint pairs so that each pair of 0..n-1 meets exactly once (circle method).
/// Pure.
std::vector<std::vector<std::pair<int, int>>> tournament(int players);

}  // namespace tombolo::probe
