// A collective among the ranks of one host, through the memory that all of them see: no messages, no system
// calls while everyone is awake.
//
// It goes in rounds. In each a rank writes what it has for the others into its slot, announces the round, and
// reads what it needs from the slots of those that have announced it too (SlotRounds). A slot is used again
// some rounds later (SlotPlan::depth), once every rank has announced the round after the one that it was
// written for, since by then it has read that.
//
// Large calls whose bytes have one reader can take another way, where every rank may read the memory of the
// others' processes, and take it while it is the faster one (CallWay). In their first round each
// announces where its input lies and reads what it needs there (BufferReader), and in the second that it has
// read all. Nobody returns before all have. Where a buffer cannot be read, the call starts again and goes
// through slots, like all later ones of its collective.
//
// Parts may differ. Where all ranks know all of them, the longest one says how many rounds there are. Else
// each part has its length before it in the first round, which its reader compares with what it expects; and
// who knows most, the root or of an all-to-all every rank, says beside the number of that round how many
// there are: so those that only give to a gather wait for the root's first round, too.
//
// What a call writes goes past the caches where it would fill them anyhow. The slots stay in them.
//
// In an all-reduce of more than a few bytes each rank first sums up a part, through slots, and then gets the
// other parts, either way: the sums are what is read of the others' outputs, and where these cannot be read
// only the sums go again, through slots.
//
// Reductions combine the ranks' values in the order of the ranks, so that everyone has the same bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "collectives/host/buffer_reader.h"
#include "collectives/host/call_way.h"
#include "collectives/host/host_call.h"
#include "collectives/host/host_group.h"
#include "collectives/host/slot_plan.h"
#include "collectives/host/slot_rounds.h"

namespace tombolo::collectives {

/// One thread at a time.
class HostCollective {
 public:
  /// The clock takes the time of calls, by which their way is chosen; it outlives this.
  explicit HostCollective(HostGroup& group, const Clock& clock = Clock::steady())
      : group_(group), reader_(group, clock), way_(group, clock) {}

  /// The buffers live until finished() or clear().
  void start(const HostCall& call) noexcept;
  bool finished() const noexcept { return round_ == rounds_; }
  /// Drops the call. The group can then only be left.
  void clear() noexcept {
    group_.withdraw();
    round_ = rounds_ = 0;
  }
  /// Does what is possible now; true if that was anything.
  bool progress() noexcept;
  /// The rank whose announcement is awaited.
  int awaited() const noexcept { return awaited_; }
  /// Whether the call cannot be finished before that rank has announced more rounds than it has so far.
  bool owes(int rank) const noexcept;
  /// Whether others have copied bytes out of buffers since this was last asked: a call may go on for long
  /// after this rank has read all that it needs.
  bool others_have_copied() noexcept;
  /// In all calls, through slots and from buffers.
  std::uint64_t written() const noexcept { return traffic_.written; }
  std::uint64_t read() const noexcept { return traffic_.read; }
  /// Which way the present call goes; of one that is finished, which way it went.
  HostWay way() const noexcept { return way_.way(); }
  /// A rank that has made another call than this one, or one with a part of another length.
  const std::optional<int>& mismatch() const noexcept { return mismatch_; }
  /// Of a mismatch of the second kind: the part.
  const std::optional<WrongPart>& wrong_part() const noexcept { return wrong_part_; }

 private:
  void write_round(std::uint64_t number) noexcept;
  bool read_round(std::uint64_t number, bool& moved) noexcept;
  bool read_buffers(std::uint64_t number, bool& moved) noexcept;
  /// In the first round of a call with parts that not all ranks know; false where one is of another length.
  bool hear_of_parts() noexcept;
  bool any_failed_to_read(std::uint64_t number) const noexcept;
  /// Counts the bytes of a call whose ranks have read all from buffers.
  void count_read_buffers() noexcept;
  /// The present call in slots.
  SlotRounds slots() noexcept { return {group_, call_, plan_, first_, way_, traffic_}; }
  /// Whether the rank has announced that round, which is the newest of this rank less depth - 2, or more.
  bool has_announced(int rank, std::uint64_t number) noexcept;
  bool all_announced(std::uint64_t number) noexcept;
  bool needed_announced(std::uint64_t number) noexcept;
  /// Whether this rank reads what that one announces.
  bool needs(int rank) const noexcept { return rank >= first_needed_ && rank < after_needed_; }
  std::uint64_t number(std::size_t round) const noexcept { return first_ + round; }
  /// Once in each round, when this rank has nothing else to do.
  void prefetch_next() noexcept;
  /// Decides how the call goes, its rounds and what they move.
  void prepare() noexcept;
  void prepare_needed() noexcept;
  /// Of a reduce that goes on through slots: leaves out what the root has said in that round that it has.
  void skip_combined(std::uint64_t number) noexcept;
  /// Has the call, of which a buffer could not be read, go through slots.
  void take_slots() noexcept;

  HostGroup& group_;
  BufferReader reader_;
  CallWay way_;
  HostCall call_;
  std::uint64_t facts_ = 0;  // a hash of what all ranks must agree on in this call; 0: before the first
  std::uint32_t hash_ = 0;   // of this call and of all before
  std::uint64_t first_ = 1;  // number of this call's first round
  std::size_t round_ = 0, rounds_ = 0;
  bool settled_ = false;                     // the next call goes the same way if it is the same one
  int first_needed_ = 0, after_needed_ = 0;  // ranks of whose rounds this one reads
  SlotPlan plan_;
  bool prefetches_ = false;                           // lines of slots before they are written, of such calls
  std::uint64_t prefetched_ = 0;                      // the last round for which it has
  bool announced_ = false;                            // this rank's part of the present round
  std::array<std::uint64_t, kMostHostRanks> seen_{};  // by rank, a round that it has announced
  std::uint64_t seen_of_all_ = 0;                     // a round that all others have announced
  int looked_ = 0;                                    // ranks that have announced what is awaited
  int awaited_ = 0;
  std::optional<int> mismatch_;
  std::optional<WrongPart> wrong_part_;
  HostTraffic traffic_;
  std::uint64_t copied_by_others_ = 0;
};

}  // namespace tombolo::collectives
