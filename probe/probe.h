// The probe measures the links between ranks, in a round robin of disjoint pairs over the real transports,
// and the compute speed of each device. docs/probing.md says what it finds. bootstrap/ is what ranks do
// before a communicator exists, measure/ measures a single figure, rounds/ decides which pairs are measured
// when and runs them, analyse/ draws conclusions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "collectives/engine/communicator.h"
#include "probe/analyse/fabrics.h"
#include "probe/analyse/islands.h"
#include "probe/measure/gpu_speed.h"
#include "topology/files/cluster_file.h"

namespace tombolo::probe {

struct LinkProbeOptions {
  std::size_t bytes = 0;  ///< per measurement; 0: as many as take about `seconds_per_pair`
  /// Seconds per measurement. 0 stands for 0.3 s, or less (down to 0.05 s) where all steps together would
  /// take more than about 10 s.
  double seconds_per_pair = 0;
  /// Called on rank 0 with the number of steps that are done and of all, which may grow; may be empty.
  std::function<void(int done, int total)> progress;
};

/// What disjoint pairs of hosts attained between two clusters, or between one and several others, over one
/// fabric in one direction.
struct LoadFinding {
  std::string name;  ///< "A to B", "A to B+C"
  std::size_t pairs = 0;
  double alone_bytes_per_second = 0;     ///< one pair by itself
  double together_bytes_per_second = 0;  ///< the sum of all pairs at once
  /// ProbedLinks::shared has a link of this name, or that of an uplink which takes its place.
  bool shared = false;
};

struct ProbedLinks {
  std::vector<topology::Link> links;
  std::vector<LinkFailure> failures;  ///< each pair once; links has neither of its directions
  std::vector<Island> islands;  ///< by what pairs of hosts attained while the other hosts were measured too
  std::vector<LoadFinding> loads;
  std::vector<topology::SharedLink> shared;  ///< between clusters, and ports that NICs of one host share
};

/// Collective over `options.identity`. For every pair of ranks' hosts and every NIC pair of equal fabric it
/// measures latency and attained bandwidth, both directions at once, in rounds of disjoint pairs. Then it
/// looks for shared links and ports: for each two clusters and each fabric it loads one pair alone, and as
/// many disjoint ones as there are at once; where one cluster shares links with several others, pairs with
/// all of these at once; and of each host all NICs at once. Islands serve as clusters for hosts that have
/// none. A pair that does not connect is given up after 10 s (less with a short Options::deadline), and the
/// rest goes on. Every rank gets the same result.
ProbedLinks probe_links(const collectives::Options& options, const LinkProbeOptions& probe);
/// The same over an existing communicator, whose own routes need not be those of `options`. Collective.
ProbedLinks probe_links(collectives::Communicator& communicator, const collectives::Options& options,
                        const LinkProbeOptions& probe);

struct ComputeProbeOptions {
  /// Rows, inner and columns of the matrix product that is timed on a core.
  int rows = 512, inner = 256, columns = 1024;
  double seconds = 0.5;    ///< for each figure
  std::size_t memory = 0;  ///< bytes that a core streams through; 0: well beyond its caches (triad_bytes())
  /// The GPU that this rank measures in place of a core, as gpu_of() says.
  std::optional<GpuChoice> gpu = {};
};

/// What a device attains while all others are idle, or while the others are measured too.
struct DeviceSpeed {
  double flops_per_second = 0;          ///< a core's in float32, a GPU's in bfloat16
  double memory_bytes_per_second = 0;   ///< STREAM's triad
  double float32_flops_per_second = 0;  ///< for a core the same as flops_per_second
};

struct ComputeResult {
  DeviceSpeed alone;     ///< one rank at a time
  DeviceSpeed together;  ///< all ranks at once: less where ranks share processors or memory
  bool gpu = false;
  std::string problem;  ///< why a GPU was not measured; empty where it was
};

/// The GPU that belongs to this rank: the n-th rank on a host has the host's n-th device. Nothing where that
/// device is no GPU.
std::optional<GpuChoice> gpu_of(const collectives::Communicator& communicator, const topology::Host& mine);

/// Collective. Returns this rank's result; where a GPU could not be measured, it says why.
ComputeResult probe_compute(collectives::Communicator& communicator, const ComputeProbeOptions& options);

/// Collective. Makes the cluster file of the ranks' hosts: `known` where there is one, else from the hosts on
/// which the ranks are, with their islands for clusters. Its links are those that were `measured`. A device
/// gets the speed that its rank attained together with the others, as in training; but the speed attained
/// alone where the file says that the hosts share a processor, because the simulator divides that processor
/// itself. A GPU of which nothing is known, since no rank ran on it, gets what those of its name attain, on
/// its host or else on others. Every rank gets the same.
topology::ClusterFile describe(collectives::Communicator& communicator, const topology::Host& mine,
                               const std::optional<topology::ClusterFile>& known, const ProbedLinks& measured,
                               const ComputeResult& compute);

}  // namespace tombolo::probe
