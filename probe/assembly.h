// Texts between ranks over the rendezvous store alone: what works before, and without, any connection between
// two ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/engine/communicator.h"

namespace tombolo::probe {

/// One thread. Rank 0 runs the store as long as its object lives; a communicator over the same ranks is made
/// with Options::store_elsewhere meanwhile.
class Assembly {
 public:
  /// Collective over `options.identity`. Throws as Store::connect does.
  explicit Assembly(const collectives::Options& options);
  /// Collective. Rank 0 waits for the others for at most 5 s, so that its store outlives their last words.
  ~Assembly();
  Assembly(const Assembly&) = delete;
  Assembly& operator=(const Assembly&) = delete;

  /// Collective; also a barrier. By rank. Each `topic` once. Throws kTimeout, when not all came within
  /// `patience`, naming those that did not.
  std::vector<std::string> gather(std::string_view topic, std::string_view mine, Duration patience);

  /// The same ranks' options for a communicator that uses this store. It must not outlive the assembly.
  collectives::Options with_store(collectives::Options options) const;
  /// Collective, once: authenticates connections between the ranks. The one of the options, or where nobody
  /// has chosen one (Options::make_secret) a random one.
  transport::Secret agree_on_secret(const collectives::Options& options);

 private:
  int rank_, size_;
  std::string address_;  ///< where this process reaches the store
  int port_;
  std::optional<collectives::StoreServer> server_;
  std::unique_ptr<collectives::Store> store_;
};

}  // namespace tombolo::probe
