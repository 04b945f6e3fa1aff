// Tuning of the TCP backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"

namespace tombolo::transport {

/// A limit applied in the transport where the network cannot apply it (emulation without namespaces): bytes
/// per second through one NIC of this process, for each direction separately.
struct NicLimit {
  std::string nic;
  double bytes_per_second = 0;
};

/// Options of TCP. Zero stands for the default of the environment parameter of the same name.
struct TcpOptions {
  int streams = 0;  ///< per connection, as the connecting end says; 0 = by the path's round trip time
  std::size_t chunk_bytes = 0;  ///< most payload bytes per chunk; 0 = by the number of streams
  /// A connection with requests in flight whose peer's host answers nothing for so long fails; so does one
  /// with a send in flight of which the peer takes nothing for ten times as long.
  Duration idle_timeout{};
  /// Copies of sent messages that the peer has not acknowledged take at most so many bytes per connection; 0
  /// = the default.
  std::size_t replay_bytes = 0;
  /// Each chunk carries the CRC32C of its payload, as every frame does that of its header.
  bool checksums = false;
  /// Which congestion control streams have: rules as TOMBOLO_TCP_CONGESTION says; empty = auto.
  std::string congestion = {};
  /// The rate in all that this process's streams hand to a NIC, each sending at an even pace.
  struct Pace {
    std::string nic;
    double bytes_per_second = 0;
  };
  std::vector<Pace> pacing = {};
  /// The options that these variables set: TOMBOLO_TCP_STREAMS, TOMBOLO_TCP_CHUNK, TOMBOLO_TCP_IDLE_TIMEOUT,
  /// TOMBOLO_TCP_REPLAY, TOMBOLO_TCP_CHECKSUMS, TOMBOLO_TCP_CONGESTION and TOMBOLO_TCP_PACING.
  static TcpOptions from_environment();
};

}  // namespace tombolo::transport
