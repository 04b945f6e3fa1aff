// What a fleet file says of its clusters and of what joins them, on the way to a cluster file.
#pragma once

#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/json.h"
#include "topology/files/cluster_file.h"
#include "topology/files/library.h"

namespace tombolo::topology {

/// The speed of one pair of NICs: as the file gives it, or the usual share of a nominal rate.
struct FleetSpeed {
  double bytes_per_second = 0;
  double latency_seconds = 0;
};

struct FleetCluster {
  std::string name;
  std::vector<std::string> hosts;
  std::vector<Nic> nics;        // every host has these
  std::vector<Device> devices;  // every host has these
  double device_bytes_per_second = 0;
  std::map<NicKind, FleetSpeed> inside;      // between two hosts
  std::map<NicKind, std::uint64_t> fastest;  // nominal, bits per second
};

/// The link between two clusters, one direction.
struct FleetBetween {
  std::size_t from, to;
  NicKind kind;
  FleetSpeed speed;                   // of a pair of NICs
  double total_bytes_per_second = 0;  // of all pairs together; 0 = as much as they want
};

/// Reads "rate_gbps" or "bytes_per_second", and "latency_seconds". What the file leaves out follows from
/// `rate` (bits per second) and the library's share for `kind`. Throws kInvalidUsage naming file, line and
/// field where a speed is above `rate`.
FleetSpeed speed_of(const JsonCursor& cursor, NicKind kind, std::uint64_t rate, const Library& library);

/// Which clusters are joined (union-find), for each kind of NIC or for any.
class Joined {
 public:
  explicit Joined(std::size_t size) : first_(size) {
    std::iota(first_.begin(), first_.end(), std::size_t{0});
  }
  /// The first cluster that `at` is joined with.
  std::size_t root(std::size_t at) const {
    while (first_[at] != at) at = first_[at];
    return at;
  }
  void join(std::size_t a, std::size_t b) {
    a = root(a);
    b = root(b);
    first_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> first_;
};

using FleetIndices = std::map<std::string, std::size_t, std::less<>>;

/// Both directions of each entry of "between", unless another entry states the opposite one. Throws
/// kInvalidUsage naming file, line and field: unknown clusters, entries given twice, rates that contradict.
std::vector<FleetBetween> all_between(const JsonCursor& root, const std::vector<FleetCluster>& clusters,
                                      const FleetIndices& indices, const Library& library);

/// Throws kInvalidUsage unless every cluster can be reached from the first, by any kinds of NIC.
void check_joined(const JsonCursor& root, const std::vector<FleetCluster>& clusters,
                  const std::vector<FleetBetween>& betweens);

/// The link that all NICs of that kind of the two clusters share.
SharedLink shared_link_of(const FleetBetween& between, const std::vector<FleetCluster>& clusters);

}  // namespace tombolo::topology
