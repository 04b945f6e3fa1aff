// What a user may decide about shared memory.
#pragma once

namespace tombolo::transport::shm {

/// Whether a receiver reads large messages in the sender's memory. (TOMBOLO_SHM_FETCH)
enum class Fetch {
  kNever,
  kWhereCheaper,  ///< than a copy through the ring, by what copies took lately
  kAlways,        ///< to compare, and to test
};

}  // namespace tombolo::transport::shm
