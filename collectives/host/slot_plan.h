// How a call among the ranks of one host goes through their slots: which of them, in which rounds, and how
// much each round moves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/host/host_call.h"
#include "collectives/host/host_parts.h"
#include "collectives/host/rank_memory.h"
#include "compute/caches.h"

namespace tombolo::collectives {

/// The same on every rank, but for a call with parts that not all ranks know: there `rounds` are those that
/// this rank knows of, and `longest` is of the parts that it knows.
struct SlotPlan {
  SlotPlan() = default;
  /// Of a call among so many ranks on a machine with these caches.
  SlotPlan(const HostCall& call, int ranks, const compute::LastLevelCaches& caches) noexcept;

  std::size_t longest = 0;               ///< bytes of the longest part; of vectors: of the whole
  bool open = false;                     ///< has parts that not all ranks know
  bool beside = false;                   ///< what is written fits beside the announcements
  bool small = false;                    ///< goes through small slots
  std::uint64_t depth = kSlots;          ///< rounds until a slot is used again: a power of two
  std::size_t round_bytes = kSlotBytes;  ///< of a slot, which has a part for each of some rounds in turn
  std::uint64_t last_part = 0;           ///< a power of two less one
  std::size_t step = kSlotBytes;         ///< bytes of a part, or of the whole, that one round moves at most
  std::size_t stride = kSlotBytes;       ///< from one rank's part in a slot to the next one's
  std::size_t copied = 0;   ///< what a call that can go past the caches writes into all outputs together
  bool streams = false;     ///< what it writes would fill the caches, which it goes past
  bool in_parts = false;    ///< a reduction of which each rank combines a part
  std::size_t summing = 0;  ///< rounds of an all-reduce in parts before its sums go to all ranks
  std::size_t done = 0;     ///< bytes of the result that are there when the rounds begin
  std::size_t rounds = 1;

  /// An all-reduce's sums are there, and go to all ranks.
  void only_spread(std::size_t longest_sum) noexcept;
  /// So many bytes of a call's result are there, the first of `bytes`.
  void skip(std::size_t there, std::size_t bytes) noexcept;

  /// What a round moves of so many bytes.
  Chunk chunk(std::size_t round, std::size_t of) const noexcept {
    return host_step({done, of - done}, round, step);
  }
  /// The same, of a part of a buffer.
  Chunk chunk(std::size_t round, Chunk part) const noexcept { return host_step(part, round, step); }

 private:
  std::size_t step_of_one_way(std::size_t bytes, std::size_t ranks) const noexcept;
};

}  // namespace tombolo::collectives
