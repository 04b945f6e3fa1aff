// The folder bootstrap/ owns what ranks do before, and without, any connection between two of them. This file
// exchanges texts between ranks over the rendezvous store alone.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/engine/communicator.h"

namespace tombolo::probe {

/// Used by one thread. Rank 0 runs the store as long as its object lives. A communicator of the same ranks
/// that is made in that time uses that store (with_store()).
class RendezvousGroup {
 public:
  /// Collective over `options.identity`. Throws as Store::connect does.
  explicit RendezvousGroup(const collectives::Options& options);
  /// Collective. Rank 0 waits up to 5 s for the others, so that its store outlives their last calls.
  ~RendezvousGroup();
  RendezvousGroup(const RendezvousGroup&) = delete;
  RendezvousGroup& operator=(const RendezvousGroup&) = delete;

  /// Collective, and a barrier too. Returns every rank's text, by rank. Each `topic` may be used once. Throws
  /// kTimeout when a text has not come within `patience`, naming the missing ranks.
  std::vector<std::string> gather(std::string_view topic, std::string_view mine, Duration patience);

  /// The options of a communicator of the same ranks that uses this store. It must not outlive the group.
  collectives::Options with_store(collectives::Options options) const;
  /// Collective; may be called once. Returns the secret that authenticates connections between the ranks:
  /// that of the options, or a random one where the user chose none (Options::make_secret).
  transport::Secret agree_on_secret(const collectives::Options& options);

 private:
  int rank_, size_;
  std::string address_;  ///< where this process reaches the store
  int port_;
  std::optional<collectives::StoreServer> server_;
  std::unique_ptr<collectives::Store> store_;
};

}  // namespace tombolo::probe
