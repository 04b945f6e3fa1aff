// Tuning of the RDMA backend.
#pragma once

#include <cstddef>

namespace tombolo::transport {

struct RdmaOptions {
  int queue_pairs = 1;  ///< for payload, per connection and pair of NICs, as the connecting end says; 1 to 8
  std::size_t eager_bytes = 4096;  ///< messages up to this size are copied through buffers posted in advance
  int gid_index = -1;              ///< in each port's table; -1 = chosen
  int service_level = 0;
  int traffic_class = 0;
  int timeout =
      0;  ///< exponent of the acknowledgement timeout, 4.096 us * 2^timeout; 0 = by the idle timeout
  int retries = 7;
  /// As `timeout`, of connections whose messages can go on over another way; 0 = `timeout`.
  int resumable_timeout = 0;
  /// The options that these variables set: TOMBOLO_RDMA_QPS, _EAGER, _GID_INDEX, _SL, _TC, _TIMEOUT and
  /// _RETRIES.
  static RdmaOptions from_environment();
};

}  // namespace tombolo::transport
