// Tuning of the TCP backend.
#pragma once

#include <cstddef>

#include "base/clock.h"

namespace tombolo::transport {

/// Zero stands for the default of the parameter of the same name.
struct TcpOptions {
  int streams = 0;  ///< per connection, as the connecting end says; 0 = by the path's round trip time
  std::size_t chunk_bytes = 0;  ///< most payload bytes per chunk; 0 = by the number of streams
  /// A connection with requests in flight whose peer's host answers nothing for so long fails; so does one
  /// with a send in flight of which the peer takes nothing for ten times as long.
  Duration idle_timeout{};
  /// From TOMBOLO_TCP_STREAMS, TOMBOLO_TCP_CHUNK and TOMBOLO_TCP_IDLE_TIMEOUT.
  static TcpOptions from_environment();
};

}  // namespace tombolo::transport
