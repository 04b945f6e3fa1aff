// A job's store within a simulation: it lives in memory with the process that keeps it, and is reached over
// no network.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectives/rendezvous/bootstrap.h"
#include "tests/simulation/world/world.h"

namespace tombolo::simulation {

/// Host 0 keeps it. Its calls take a little virtual time, in which others go on, and fail as those of a store
/// over the network where its process has died or left. The world must outlive it.
class SimulatedStore {
 public:
  explicit SimulatedStore(World& world) : world_(world) {}

  enum class State { kOpen, kLeft, kLost };
  /// As seen by a host: a process that has died sees nothing.
  State state(unsigned from) const;
  /// Host 0's process closes it on purpose.
  void leave() noexcept { left_ = true; }
  /// The way to it from a host. The store must outlive it.
  std::shared_ptr<const collectives::StoreAccess> access(unsigned host);

 private:
  class Access;
  class Client;
  class Watch;

  /// What the key holds, whoever has set it.
  std::optional<std::vector<std::byte>> find(std::string_view key) const;

  World& world_;
  bool left_ = false;
  std::map<std::string, std::vector<std::byte>, std::less<>> values_;
  std::map<std::string, unsigned, std::less<>>
      held_;  // keys that go with whoever holds them, and the holders' hosts
};

}  // namespace tombolo::simulation
