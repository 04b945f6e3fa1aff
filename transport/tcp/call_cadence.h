// What not every call of a connection's owner does, because a call is to cost little.
#pragma once

namespace tombolo::transport::tcp {

/// Counts the owner's calls. Used by one thread at a time.
class CallCadence {
 public:
  /// Called by a call that need not read. Whether it reads all the same, to see whether the peer has closed.
  bool reads_unasked() noexcept { return ++skipped_reads_ >= kReadsToSkip; }
  /// A call reads.
  void reads() noexcept { skipped_reads_ = 0; }

  /// Called in every pass, in which something may have `moved`. Whether this one reads the clock, to see what
  /// is due by time; `repairing`: something is due soon.
  bool reads_clock(bool moved, bool repairing) noexcept {
    return !moved || ++passes_ % (repairing ? kPassesPerRepair : kPassesPerCheck) == 0;
  }

 private:
  // A connection that only sends checks once in so many tests whether the peer has closed.
  static constexpr unsigned kReadsToSkip = 64;
  // While something moves, the clock is read once in so many passes.
  static constexpr unsigned kPassesPerCheck = 256, kPassesPerRepair = 8;

  unsigned skipped_reads_ = 0, passes_ = 0;
};

}  // namespace tombolo::transport::tcp
