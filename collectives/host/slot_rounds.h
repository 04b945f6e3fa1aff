// What one rank writes into slots, and reads from those of the others, in the rounds of a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "collectives/host/call_way.h"
#include "collectives/host/host_call.h"
#include "collectives/host/host_group.h"
#include "collectives/host/host_parts.h"
#include "collectives/host/slot_plan.h"

namespace tombolo::collectives {

/// Bytes given to other ranks, and read from them. What all ranks read is given once.
struct HostTraffic {
  std::uint64_t written = 0, read = 0;
};

/// A part that is not as long as the rank that gets it expects. In bytes.
struct WrongPart {
  int rank = 0;  ///< that sent it
  std::uint64_t sent = 0, expected = 0;
};

/// A view of a call, of which `first` is the number of the first round. Its owner announces rounds and waits
/// for those of the others. What it refers to lives longer.
class SlotRounds {
 public:
  SlotRounds(HostGroup& group, const HostCall& call, const SlotPlan& plan, std::uint64_t first, CallWay& way,
             HostTraffic& traffic) noexcept
      : group_(group), call_(call), plan_(plan), first_(first), way_(way), traffic_(traffic) {}

  /// What this rank has for the others in the round, before it announces that.
  void write(std::size_t round) noexcept;
  /// Copies what stays with this rank, while the others may still be writing.
  void take_own(std::size_t round) noexcept;
  /// What it needs of the others, who have announced the round.
  void read(std::size_t round) noexcept;
  /// Of a call with parts that not all ranks know, once those that this rank needs have announced the first
  /// round: how many rounds it has, and a part that this rank gets which is longer or shorter than it should.
  std::size_t rounds_said() const noexcept;
  std::optional<WrongPart> wrong_part() const noexcept;
  /// Of two ranks: has the lines that this one writes in the round after that one come to its cache, if it
  /// moves as much. The other one still has them from reading them, for which the writer else waits. On two
  /// processors (Intel Xeon, family 6, model 167) gathers of 2 KiB of each took 0.66 us in place of 1.14.
  void prefetch_next(std::size_t round) noexcept;
  /// Part `rank` of an all-reduce, which that rank sums up.
  Chunk sum_of(int rank) const noexcept { return part({0, call_.problem.bytes()}, rank); }

 private:
  /// Puts a part of this rank's input, multiplied where the problem is premultiplied.
  void contribute(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
  void put(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
  void take(int rank, std::byte* to, const std::byte* from, std::size_t bytes) noexcept;
  /// What this rank writes for the others in a round like that one; nothing where it gives nothing.
  std::byte* written_at(std::uint64_t number) const noexcept;
  /// This round's place for what every rank writes once: beside the announcement where that has room.
  std::byte* place(int rank, std::uint64_t number) const noexcept;
  /// The same for what rank `from` writes for rank `to`.
  std::byte* place_of_part(int from, int to, std::uint64_t number) const noexcept;
  /// Where parts are that not all ranks know, their lengths are before them in the first round. They change
  /// nothing of where the next part is, so that a rank with other lengths is found, and not misread.
  std::size_t length_before(std::uint64_t number) const noexcept {
    return plan_.open && number == first_ ? sizeof(std::uint64_t) : 0;
  }
  bool says_lengths(std::size_t round) const noexcept { return plan_.open && round == 0; }
  void say_length(std::byte* part, std::size_t bytes) const noexcept;
  std::optional<WrongPart> compare_length(int rank, const std::byte* part,
                                          std::size_t expected) const noexcept;
  std::byte* slot(int rank, std::uint64_t number) const noexcept {
    RankMemory& memory = group_.memory(rank);
    if (plan_.small) return memory.small_slots[number % kSmallSlots];
    return memory.slots[number & (plan_.depth - 1)] + (number / kSlots & plan_.last_part) * plan_.round_bytes;
  }
  /// Whether an all-reduce in parts moves input in that round, of this call or of the next one like it.
  bool sums_up(std::uint64_t number) const noexcept {
    return (number - first_) % plan_.rounds < plan_.summing;
  }
  std::uint64_t number_of(std::size_t round) const noexcept { return first_ + round; }
  /// Part `rank` of a chunk that all parts make up.
  Chunk part(Chunk chunk, int rank) const noexcept { return host_part(chunk, rank, group_.size()); }
  /// output = what `at(rank)` gives, combined over all ranks.
  template <typename At>
  void combine_all(std::byte* output, std::size_t bytes, const At& at) noexcept;
  /// Whether this rank combines its own part from its input: of the first two ranks, which are combined
  /// first, before anything is written to the output, which may be the same memory.
  bool combines_own_input() const noexcept { return group_.index() < 2 && !call_.problem.premultiplied; }
  void write_parts(std::size_t round, bool also_own) noexcept;
  /// Where this rank combines its part of a chunk: in the output, where it has one.
  std::byte* combined(std::size_t round, Chunk part) const noexcept;
  void write_reduce(std::size_t round) noexcept;
  void read_reduce(std::size_t round) noexcept;
  void write_all_reduce(std::size_t round) noexcept;
  void read_all_reduce(std::size_t round) noexcept;

  HostGroup& group_;
  const HostCall& call_;
  const SlotPlan& plan_;
  std::uint64_t first_;
  CallWay& way_;
  HostTraffic& traffic_;
};

}  // namespace tombolo::collectives
