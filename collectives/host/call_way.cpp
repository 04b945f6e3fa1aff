#include "collectives/host/call_way.h"

#include <utility>

#include "collectives/host/buffer_reader.h"

namespace tombolo::collectives {
namespace {

/// Of the collectives whose way is chosen by what they took.
std::size_t place_of(Collective collective) noexcept {
  switch (collective) {
    case Collective::kAllToAll:
      return 0;
    case Collective::kAllGather:
      return 1;
    case Collective::kAllReduce:
      return 2;
    default:  // a broadcast
      return 3;
  }
}

}  // namespace

void CallWay::begin(const HostCall& call, std::size_t copied, bool streams) noexcept {
  choice_ = nullptr;
  measures_ = false;
  way_ = HostWay::kThroughSlots;
  if (!suits_buffers(call)) return;
  // Slots that are in another cache than their reader are slower than buffers.
  const compute::LastLevelCaches caches = group_->caches();
  const bool slots_are_faster = streams && caches.count == 1 &&
                                BufferReader::is_slower_than_streams(group_->size(), copied / caches.bytes);
  const HostWay first = slots_are_faster ? HostWay::kThroughSlots : HostWay::kFromBuffers;
  way_ = first;
  if (group_->size() != 2) return;
  broadcasts_ = call.collective == Collective::kBroadcast;
  leader_ = broadcasts_ ? call.problem.root : 0;
  measures_ = leader_ == group_->index();
  bytes_ = call.problem.bytes();
  choice_ = &choices_.at(place_of(call.collective), leader_, bytes_);
  way_ = choice_->way_or(first);
  if (!measures_) return;
  choice_->choose();
  since_ = Clock::steady().now();
  took_ = {};
  all_are_here_ = false;
}

bool CallWay::suits_buffers(const HostCall& call) const noexcept {
  return !only_slots_ && group_->reads_buffers() &&
         BufferReader::suits(call.collective, call.problem.bytes(), group_->size());
}

void CallWay::give_up_buffers() noexcept {
  only_slots_ = true;
  way_ = HostWay::kThroughSlots;
  choice_ = nullptr;
  measures_ = false;
}

void CallWay::writes_first_round() noexcept {
  // A call that was only started may begin much later. What a broadcast's root waits for a slot is time that
  // the other takes to read.
  if (measures_ && !broadcasts_) since_ = Clock::steady().now();
}

void CallWay::has_written_first_round() noexcept {
  if (measures_) took_ = Clock::steady().now() - since_;
}

void CallWay::others_are_here() noexcept {
  if (measures_ && !std::exchange(all_are_here_, true)) since_ = Clock::steady().now();
}

void CallWay::end() noexcept {
  if (measures_) choice_->measured(way_, took_ + (Clock::steady().now() - since_), bytes_);
}

}  // namespace tombolo::collectives
