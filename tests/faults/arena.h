// Where faults happen: what connects the two ends, and how it can be broken.
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
  /// In the forked process of that end, before anything else; 0 or an errno.
  virtual int enter(std::size_t) { return 0; }
  /// Between the ends: the endpoint that the connecting one gets to see.
  virtual transport::Endpoint relay(transport::Endpoint endpoint) { return endpoint; }
  /// The faults of this arena. Valid as long as the arena.
  virtual std::vector<Fault> faults() = 0;
  /// All ways between the two ends, at once and for good.
  virtual void cut_all() = 0;
  /// Words that the messages of both ends must have when all ways are cut, by end.
  virtual std::vector<std::string> names(std::size_t end) const = 0;
};

/// Loopback addresses, one per NIC, and a proxy that every stream goes through. Needs no privilege.
std::unique_ptr<Arena> loopback_arena(int nics, std::uint64_t seed);

/// Two hosts with two paths of their own NICs, as an emulation with relays: streams are destroyed by the
/// kernel, NICs taken down, paths cut. Throws kUnsupported where namespaces, or TAP devices, are not
/// permitted.
std::unique_ptr<Arena> paths_arena(const std::string& spec);

}  // namespace tombolo::faults
