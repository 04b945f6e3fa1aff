// The way of each call among the ranks of one host: which ways it may take, and between two ranks what it
// took, by which its leader chooses the way of the next call like it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "collectives/host/host_call.h"
#include "collectives/host/host_group.h"
#include "collectives/host/way_choice.h"

namespace tombolo::collectives {

/// One thread at a time, like the HostCollective that owns it and tells it how far a call has come.
class CallWay {
 public:
  explicit CallWay(HostGroup& group) noexcept : group_(&group) {}

  /// A call begins, or begins again; all ranks come to the same way. `copied`: what all of them write into
  /// outputs, in bytes, where the call is one that can go past the caches; `streams`: whether it does.
  void begin(const HostCall& call, std::size_t copied, bool streams) noexcept;
  /// Of the present call.
  HostWay way() const noexcept { return way_; }
  bool from_buffers() const noexcept { return way_ == HostWay::kFromBuffers; }
  /// Whether the next call goes the same way if it is the same one.
  bool is_settled() const noexcept { return !from_buffers() && choice_ == nullptr; }
  /// A buffer could not be read, which all ranks know from the same call: what is left of it goes through
  /// slots, and so do all later calls.
  void give_up_buffers() noexcept;

  /// Writes into an announcement of this rank which way the next call like this one goes.
  void announce(Announcement& own) const noexcept {
    if (measures_) own.next_way = static_cast<std::uint32_t>(choice_->way_or(HostWay::kFromBuffers));
  }
  /// Learns that from an announcement of another rank.
  void heed(int rank, const Announcement& theirs) noexcept {
    if (choice_ == nullptr || rank != leader_) return;
    choice_->set(theirs.next_way == 0 ? HostWay::kThroughSlots : HostWay::kFromBuffers);
  }

  /// This rank begins to write its first round, and has announced it.
  void writes_first_round() noexcept;
  void has_written_first_round() noexcept;
  /// In the first round: the others that this rank needs have announced it. What it waited for them is no
  /// part of the call's time.
  void others_are_here() noexcept;
  /// The call is over.
  void end() noexcept;

 private:
  bool suits_buffers(const HostCall& call) const noexcept;

  HostGroup* group_;
  WayChoices choices_;
  HostWay way_ = HostWay::kThroughSlots;
  /// Of the present call, where there is one. It is one of choices_, so the object is moved only before its
  /// first call.
  WayChoice* choice_ = nullptr;
  int leader_ = 0;         // the rank that chooses the way of calls like this one; between two ranks
  bool measures_ = false;  // this rank is that, so it takes the time of the call
  bool broadcasts_ = false;
  std::size_t bytes_ = 0;  // of the call, as in Problem
  TimePoint since_;        // of a call that this rank measures
  Duration took_{};        // what it took before
  bool all_are_here_ = false;
  bool only_slots_ = false;  // a buffer could not be read
};

}  // namespace tombolo::collectives
