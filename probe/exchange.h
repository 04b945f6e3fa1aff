// Measuring one connection: the two ends play the same steps at the same time.
#pragma once

#include <cstddef>
#include <memory>

#include "base/clock.h"
#include "transport/transport.h"

namespace tombolo::probe {

struct ExchangeOptions {
  bool leads = false;     ///< exactly one end does: it decides sizes
  std::size_t bytes = 0;  ///< per direction; 0 = as many as take about `seconds`
  double seconds = 0.3;
  Duration deadline = std::chrono::seconds(30);  ///< for any step
};

struct Measured {
  double latency_seconds = 0;            ///< half of the median round trip of 8 bytes
  double received_bytes_per_second = 0;  ///< the peer's direction, both loaded at once
};

/// Blocks until the measurement is done on both ends. Throws kRemote or kTimeout naming the connection's
/// route.
Measured measure(transport::Connection& connection, const ExchangeOptions& options);

}  // namespace tombolo::probe
