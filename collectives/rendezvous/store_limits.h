// How much the store grants its clients. Without TOMBOLO_SECRET whoever reaches it is a client, so all that a
// client can make it keep has a limit. The limits leave room for a job of kRanksOfALargeJob.
// docs/wire-protocol.md lists them.
#pragma once

#include <cstddef>

#include "base/clock.h"

namespace tombolo::collectives {

inline constexpr std::size_t kRanksOfALargeJob = 4'096;
/// Keys that a rank puts into the store, at most, while a communicator is made: its record, its presence, and
/// that it has read the others' records; where all links are to be of one kind, its NICs' kinds, and that it
/// has read the others'; and that it has read the tuning table. Where hosts measure instead, that takes each
/// rank one key, and at most 128 of them four more.
inline constexpr std::size_t kMostKeysPerRank = 6;

struct StoreLimits {
  /// Open connections. Every rank keeps one for each of its communicators, on which it learns of an abort,
  /// and one more while a communicator is set up: 4,096 ranks with seven communicators each. A client waits
  /// for one key at most, and the store holds at most two answers for it, so this limits those, too.
  std::size_t clients = 32'768;
  /// Connections that have not proven that they know the secret; one more closes the oldest. A client that
  /// loses its connection this way tries again.
  std::size_t unauthenticated = 256;
  /// A large job may make 170 communicators, splits included, before this is reached.
  std::size_t keys = std::size_t{4} << 20;
  /// Of keys, of values, of values that were replaced while answers with them were under way, and of requests
  /// of more than 4 KiB that have come in part. A rank's record takes less than 1 KiB with its key, and its
  /// other keys less than 256 bytes each; the longest values are those of the tools, a few hundred KiB per
  /// rank.
  std::size_t bytes = std::size_t{1} << 30;
  /// For the greeting and the proof.
  Duration handshake_patience = std::chrono::seconds(10);
  /// For a request to arrive whole once its first bytes have, and for an answer to be taken. The longest
  /// arrive in time at 0.6 Mbit/s.
  Duration patience = std::chrono::seconds(60);
};

}  // namespace tombolo::collectives
