// The interface of an arena: the network between the two ends of a transfer, with the faults that can be made
// in it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/faults/board.h"
#include "topology/files/cluster_file.h"
#include "transport/endpoint.h"

namespace tombolo::faults {

/// A fault that can be made at any time and undone.
struct Fault {
  std::string kind;
  /// Nothing can pass while it lasts, at least in one direction: that time is not counted as a stall.
  bool stops_all = false;
  /// Zero: it has no duration, there is nothing to undo.
  Duration shortest{}, longest{};
  /// Returns how many streams, NICs or processes it hit.
  std::function<int(std::mt19937_64&)> begin;
  std::function<void()> end;
};

class Arena {
 public:
  virtual ~Arena() = default;
  virtual std::string description() const = 0;
  virtual topology::Host host(std::size_t end) const = 0;
  /// Called first in the forked process of that end; 0 or an errno.
  virtual int enter(std::size_t) { return 0; }
  /// The endpoint that the connecting end gets, for the one that the listening end has published.
  virtual transport::Endpoint relay(transport::Endpoint endpoint) { return endpoint; }
  /// The faults of this arena. Valid as long as the arena.
  virtual std::vector<Fault> faults() = 0;
  /// Cuts all paths between the two ends, at once and for good.
  virtual void cut_all() = 0;
  /// Words that the error of end `end` must contain when all paths are cut.
  virtual std::vector<std::string> names(std::size_t end) const = 0;
};

/// Loopback addresses, one per NIC, and a proxy that every stream goes through. Needs no privilege.
std::unique_ptr<Arena> loopback_arena(int nics, std::uint64_t seed);

/// Two hosts that are joined by two paths, as an emulation with relays. Its faults: the kernel destroys
/// streams, NICs are taken down, paths are cut. Throws kUnsupported where namespaces, or TAP devices, are not
/// permitted.
std::unique_ptr<Arena> paths_arena(const std::string& spec);

}  // namespace tombolo::faults
