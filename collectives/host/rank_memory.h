// The memory of one rank that the others of its host have mapped: what it says of itself, and slots through
// which its data goes. Only its owner writes it, but for what says who sleeps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/shm/peer_memory.h"

namespace tombolo::collectives {

/// Ranks of a group, so that a part of a slot for each is worth its round.
inline constexpr int kMostHostRanks = 64;
/// Rounds that a rank can be ahead of one that still reads: between two ranks, and among more.
///
/// All slots of one of two ranks together are larger than a second-level cache, since a line that the
/// reader's still holds takes long to write. On two processors (AMD EPYC, family 25, model 17, 1 MiB of that
/// cache for each) a broadcast of 1 MiB took 34 us through 16 slots, and 107 through 4. More ranks, who
/// shared these processors, took up to twice as long with 16.
inline constexpr std::size_t kSlots = 16, kSlotsOfMany = 4;
/// Data of one round at most.
inline constexpr std::size_t kSlotBytes = std::size_t{128} << 10;
/// Between two ranks rounds of few bytes have slots of their own, fewer and smaller ones, which stay in a
/// first-level cache.
inline constexpr std::size_t kSmallSlots = 4;
inline constexpr std::size_t kSmallSlotBytes = std::size_t{8} << 10;
static_assert(kSmallSlots <= kSlots && kSlotsOfMany <= kSlots);
/// Data that fits beside the number of its round, so that one cache line brings both.
inline constexpr std::size_t kInlineBytes = 48;

enum class Vote : std::uint32_t {
  kOpen,      ///< has not mapped the others' memory so far
  kAccepted,  ///< has mapped all of it
  kRefused,   ///< could not
  kLeft,      ///< uses the communicator no more
};

/// What a rank can read of the others.
enum class Reach : std::uint32_t {
  kShared,   ///< the memory that they share
  kBuffers,  ///< also the buffers of their calls
};

/// A round as its writer announces it.
struct alignas(64) Announcement {
  std::atomic<std::uint64_t> round;  ///< written last; counted from 1, over all calls
  std::uint32_t call;      ///< which call it belongs to: a hash of its arguments, and of all calls before
  std::uint32_t next_way;  ///< of its leader: what it says of calls like this one, as CallWay writes it
  std::byte bytes[kInlineBytes];
};
static_assert(sizeof(Announcement) == 64);

struct RankMemory {
  alignas(64) std::uint64_t token;  ///< tells it from the memory of every other rank
  std::atomic<Vote> vote;
  std::atomic<Reach> reach;  ///< written before the vote
  /// Whoever reads a buffer of the owner's looks here in the same moment: random bytes as long as the buffers
  /// that it has announced are not returned to its callers.
  transport::shm::Nonce witness;
  std::uint64_t witness_address;  ///< in the owner's process
  std::uint64_t cache_bytes;  ///< of its machine, as compute::last_level_caches(); written before the vote
  std::int32_t caches;        ///< how many that are
  /// Bytes that its owner has copied out of other ranks' buffers.
  std::atomic<std::uint64_t> copied;
  /// By HostWay: what the last call took its owner that it was asked about, as CallWay writes it.
  alignas(64) std::atomic<std::uint64_t> took[2];
  /// Set while its owner sleeps, who wants its doorbell rung then.
  alignas(64) std::atomic<std::uint32_t> sleeps;
  /// Of the first rank's memory only: how many of the group sleep.
  alignas(64) std::atomic<std::uint32_t> sleepers;
  Announcement announcements[kSlots];
  alignas(4096) std::byte small_slots[kSmallSlots][kSmallSlotBytes];
  alignas(4096) std::byte slots[kSlots][kSlotBytes];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<Vote>::is_always_lock_free);

}  // namespace tombolo::collectives
