// What a rank publishes in the store for the others before they can connect to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/host/host_group.h"
#include "collectives/rendezvous/store_id.h"
#include "compute/cores.h"
#include "transport/endpoint.h"

namespace tombolo::collectives {

/// Where a rank has a store on standby, at which others meet where theirs has gone.
struct StandbyStore {
  std::string address;     ///< in digits
  std::uint16_t port = 0;  ///< 0: it has none
  StoreId id{};
  friend bool operator==(const StandbyStore&, const StandbyStore&) = default;
};

struct RankRecord {
  std::string host, cluster;
  std::string token;  ///< random; tells two processes apart that say that they are the same rank
  std::vector<std::pair<std::string, std::string>> settings;  ///< those that must be equal on every rank
  HostCard memory;                                            ///< for ranks of the same host
  compute::ProcessorSet processors;                           ///< on which its thread may run
  transport::Endpoint endpoint;
  /// Of what the rank knows of the links: its cluster file, and the islands that another communicator, of
  /// which this one is a part, has found; 0: nothing.
  std::uint64_t links = 0;
  StandbyStore standby = {};
  bool keeps_store = false;  ///< its process keeps the store in which this record is

  /// Texts are cut at 255 bytes.
  std::vector<std::byte> encode() const;
  /// The bytes come from a store that may admit anyone: every length is checked; throws kRemote naming the
  /// rank.
  static RankRecord decode(std::span<const std::byte> bytes, int rank);
};

}  // namespace tombolo::collectives
