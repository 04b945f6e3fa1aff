// Large copies among the ranks of one host: each rank reads what it needs straight from the buffers of the
// others, so that every byte is copied once. Nobody writes into another's memory: a process that is stopped
// between being allowed to write and writing could not be called back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "collectives/host/host_call.h"
#include "collectives/host/host_group.h"
#include "collectives/host/host_parts.h"

namespace tombolo::collectives {

/// What one rank has yet to read in the present call. One thread at a time.
class BufferReader {
 public:
  /// What one call of read() copies at most: its thread may have other things to do. With two ranks on two
  /// processors (AMD EPYC, family 25, model 17) exchanges of 2 to 8 MiB took 0.93 of the time that they took
  /// in turns of 512 KiB.
  static constexpr std::size_t kTurn = std::size_t{2} << 20;

  /// Both live as long as this.
  BufferReader(HostGroup& group, const Clock& clock) noexcept : group_(&group), clock_(&clock) {}

  /// Whether this is the faster way for a call among so many ranks. `bytes` as in Problem. The same on every
  /// rank.
  static bool suits(Collective collective, std::size_t bytes, int ranks) noexcept;

  /// Whether those of a call that writes so many times what the caches hold, at least once, would come sooner
  /// through slots, past the caches.
  static bool is_slower_than_streams(int ranks, std::size_t times) noexcept;

  /// This rank tells the others where its input lies, or its output, in which an all-reduce has its sums.
  void announce(std::byte* announcement) const noexcept;
  /// The buffers of `call` live until all have read, or HostGroup::withdraw().
  void start(const HostCall& call) noexcept;
  /// Whether bytes of that rank are still to be copied; this rank's own are, too.
  bool awaits(int rank) const noexcept { return (unread_ >> rank & 1) != 0; }
  bool done() const noexcept { return unread_ == 0; }
  /// Copies up to kTurn bytes that come from one of the ranks in the bit set `ready`, which have announced
  /// round `number` with announce(); false where it awaits none of them, or they are gone.
  bool read(std::uint64_t ready, std::uint64_t number) noexcept;
  /// Whether the kernel does not let bytes of another be read, as of memory that a driver has mapped, or of a
  /// process whose first thread has ended. Then nothing more is read in this call.
  /// Nor does it read where values are multiplied first.
  bool failed() const noexcept { return failed_; }
  /// Of a reduce that failed: how many bytes of the result are there already, the first ones.
  std::size_t combined() const noexcept { return copied_; }

 private:
  /// Which bytes of its announced buffer this rank gets from another, and where they go.
  Chunk bytes_of(int source) const noexcept;
  std::byte* destination(int source) const noexcept;
  bool gets_from(int source) const noexcept;
  bool read_from(int source, std::uint64_t number) noexcept;
  bool copy(int source, Chunk bytes, std::uint64_t address) noexcept;
  void combine_operand(Chunk bytes) noexcept;
  void fail() noexcept {
    failed_ = true;
    unread_ = 0;
  }
  /// Where a reduce's root puts what it reads, until it is combined: in its own slots, which the other of two
  /// ranks reads no more once it has begun this call.
  std::byte* operand() const noexcept { return group_->own().slots[0]; }
  /// Bytes of one read at most.
  std::size_t longest_read() const noexcept;

  HostGroup* group_;
  const Clock* clock_;
  HostCall call_;
  std::uint64_t unread_ = 0;  // bit sets of ranks
  std::uint64_t gone_ = 0;    // ranks whose buffers are theirs no more
  int source_ = 0;            // whose bytes are being copied
  std::size_t copied_ = 0;    // of those
  bool failed_ = false;
};

}  // namespace tombolo::collectives
