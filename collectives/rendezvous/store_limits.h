// How much the store grants its clients. Without TOMBOLO_SECRET whoever reaches it is a client, so all that a
// client can make it keep has a limit. The limits leave room for a job of 4,096 ranks.
#pragma once

#include <cstddef>

#include "base/clock.h"

namespace tombolo::collectives {

struct StoreLimits {
  /// Open connections. Every rank keeps one for each of its communicators, on which it learns of an abort,
  /// and one more while a communicator is set up: 4,096 ranks with seven communicators each. A client waits
  /// for one key at most, and the store holds at most two answers for it, so this limits those, too.
  std::size_t clients = 32'768;
  /// Connections that have not proven that they know the secret; one more closes the oldest. A client that
  /// loses its connection this way tries again.
  std::size_t unauthenticated = 256;
  /// Setting up a communicator takes four keys per rank, one more with a tuning table, up to four more where
  /// hosts measure (at most 128 do), and splitting one takes two: 4,096 ranks may make 256 communicators
  /// before this is reached.
  std::size_t keys = std::size_t{4} << 20;
  /// Of keys, of values, of values that were replaced while answers with them were under way, and of requests
  /// of more than 4 KiB that have come in part. A rank's record takes less than 1 KiB with its key, so 4,096
  /// ranks fill 4 MiB per communicator; the longest values are those of the tools, a few hundred KiB per
  /// rank.
  std::size_t bytes = std::size_t{1} << 30;
  /// For the greeting and the proof.
  Duration handshake_patience = std::chrono::seconds(10);
  /// For a request to arrive whole once its first bytes have, and for an answer to be taken. The longest
  /// arrive in time at 0.6 Mbit/s.
  Duration patience = std::chrono::seconds(60);
};

}  // namespace tombolo::collectives
