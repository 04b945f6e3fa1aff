// The way of each call among the ranks of one host: which ways it may take, and what it took, by which its
// leader chooses the way of the next call like it.
//
// What a call of two ranks took is counted from when both were there until it was over; one of more ranks
// from its own beginning on each, since those that share a processor come one after the other, and have done
// much of the work then. What they wait for others is in it, but of late calls the shortest ones count. The
// leader takes that time, but of calls in which one rank gives and others only get (broadcasts and scatters,
// and between two ranks gathers and reduces): who gives is done long before the others have read all when
// they go through slots. It leads there, since the others read its announcements, and asks the rank after it
// for the time of a call in these, which that answers when it has read all. Until it has the answer for a
// call that went through slots, it asks for no other such call. For calls that were the first to touch pages
// it awaits no answer, since they do not count.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "collectives/host/host_call.h"
#include "collectives/host/host_group.h"
#include "collectives/host/touched_pages.h"
#include "collectives/host/way_choice.h"

namespace tombolo::collectives {

/// One thread at a time, like the HostCollective that owns it and tells it how far a call has come.
class CallWay {
 public:
  /// Group and clock live as long as this.
  CallWay(HostGroup& group, const Clock& clock) noexcept : group_(&group), clock_(&clock) {}

  /// A call begins, or begins again; all ranks come to the same way. `copied`: what all of them write into
  /// outputs, in bytes, where the call is one that can go past the caches; `streams`: whether it does.
  void begin(const HostCall& call, std::size_t copied, bool streams) noexcept;
  /// Of the present call.
  HostWay way() const noexcept { return way_; }
  bool from_buffers() const noexcept { return way_ == HostWay::kFromBuffers; }
  /// Whether the next call goes the same way if it is the same one.
  bool is_settled() const noexcept { return !from_buffers() && choice_ == nullptr; }
  /// A buffer could not be read, which all ranks know from the same call: what is left of it goes through
  /// slots, and so do all later calls of that collective.
  void give_up_buffers(Collective collective) noexcept;

  /// Writes into an announcement of this rank what its leader says of calls like this one.
  void announce(Announcement& own) const noexcept {
    if (leads_) own.next_way = said(choice_->way_or(HostWay::kFromBuffers), asked_);
  }
  /// Learns that from an announcement of another rank.
  void heed(int rank, const Announcement& theirs) noexcept;

  /// This rank begins to write its first round, and has announced it.
  void writes_first_round() noexcept {
    // A call that was only started may begin much later.
    if (leads_ || counts_from_start()) since_ = clock_->now();
  }
  void has_written_first_round() noexcept {
    if (leads_ && !counts_from_start()) took_ = clock_->now() - since_;
  }
  /// In the first round: the others that this rank needs have not announced it so far, and all of them have.
  /// What it waited for them is no part of the call's time.
  void awaits_others() noexcept { waited_ = !counts_from_start(); }
  void others_are_here() noexcept {
    if (choice_ != nullptr && !all_are_here_ && !counts_from_start()) note_others_are_here();
  }
  /// Bytes there, of what ranks have mapped of each other, are written or read by this rank: bytes of that
  /// rank's. A call that is the first to touch pages of slots does not count in the choice.
  void touches(int rank, const std::byte* at, std::size_t bytes) noexcept {
    if (notes_touched_) note_touched(rank, at, bytes);
  }
  /// This rank has read all that it gets from buffers, which it has not announced so far.
  void has_read_buffers() noexcept {
    if (asked_ != 0 && !leads_) answer();
  }
  /// The call is over for this rank.
  void end() noexcept {
    if (leads_) {
      take_time();
    } else if (asked_ != 0 && !from_buffers()) {
      answer();
    }
  }

 private:
  /// What the leader says in 32 bits: the way of the next call, and the number of what it asks for; 0: of
  /// nothing.
  static std::uint32_t said(HostWay next, std::uint32_t asked) noexcept {
    return static_cast<std::uint32_t>(next) | asked << 1;
  }
  /// The time of a call as the rank that only gets has found it.
  struct Answer {
    std::uint32_t asked = 0;  // number of what it answers
    bool waited = false;      // it was there before the giver
    Duration took{};          // after that
  };
  Answer answer_of_getter(HostWay way) const noexcept;

  /// Whether this rank is the one after the leader.
  bool answers_leader() const noexcept { return (leader_ + 1) % group_->size() == group_->index(); }
  bool counts_from_start() const noexcept { return choice_ != nullptr && group_->size() > 2; }
  bool suits_buffers(const HostCall& call) const noexcept;
  void note_others_are_here() noexcept;
  void note_touched(int rank, const std::byte* at, std::size_t bytes) noexcept;
  void answer() noexcept;
  void take_time() noexcept;
  void take_time_of_getter() noexcept;
  Duration took_with(HostWay way, const Answer& getter, Duration own) const noexcept;
  /// Looks for the answer about a call that went through slots.
  void look_for_answer() noexcept;

  HostGroup* group_;
  const Clock* clock_;
  WayChoices choices_;
  std::array<bool, WayChoices::kRows>
      only_slots_{};  // by a collective's first row: a buffer could not be read

  // Of the present call.
  HostWay way_ = HostWay::kThroughSlots;
  /// Where there is one. It is one of choices_, so the object is moved only before its first call.
  WayChoice* choice_ = nullptr;
  int leader_ = 0;           // who chooses the way of calls like this one
  bool leads_ = false;       // this rank is that
  bool one_gives_ = false;   // the leader, and the others get
  std::size_t bytes_ = 0;    // as in Problem
  std::uint32_t asked_ = 0;  // the number of what the leader asks for; 0: of nothing
  TimePoint since_;
  Duration took_{};  // what it took before
  bool waited_ = false, all_are_here_ = false;
  bool cold_ = false;  // it has touched pages for the first time

  bool notes_touched_ = false;
  std::array<TouchedPages, kMostHostRanks> touched_;  // by the rank whose slots they are
  std::uint32_t questions_ = 0;                       // of this rank, where it led
  /// A call through slots that this rank has led, as its giver, and whose time the one after it has not said.
  struct Awaited {
    WayChoice* choice = nullptr;  // null: none
    std::size_t bytes = 0;
    std::uint32_t asked = 0;
    Duration own{};  // what the giver took: of two ranks to write the first round, of more for all
  };
  Awaited awaited_;
};

}  // namespace tombolo::collectives
