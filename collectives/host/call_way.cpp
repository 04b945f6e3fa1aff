#include "collectives/host/call_way.h"

#include <algorithm>

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

/// Numbers have 31 bits, and begin again after that with 1.
constexpr std::uint32_t kLastNumber = 0x7fffffff;
/// In an answer, from the lowest bit on: the time, whether the rank waited, the number of the question. The
/// time is in units of which 32 bits hold more than a minute: in nanoseconds calls of more than 4.3 s would
/// all seem to take that.
constexpr std::uint64_t kNanosecondsPerUnit = 16, kMostUnits = 0xffffffff;
constexpr int kWaitedBit = 32, kNumberBit = 33;

}  // namespace

void CallWay::begin(const HostCall& call, std::size_t copied, bool streams) noexcept {
  choice_ = nullptr;
  leads_ = false;
  asked_ = 0;
  way_ = HostWay::kThroughSlots;
  notes_touched_ = group_->size() == 2 && group_->reads_buffers() && !only_slots_;
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
  leads_ = leader_ == group_->index();
  bytes_ = call.problem.bytes();
  choice_ = &choices_.at(place_of(call.collective), leader_, bytes_);
  way_ = choice_->way_or(first);
  took_ = {};
  waited_ = all_are_here_ = cold_ = false;
  if (!leads_) return;
  look_for_answer();
  choice_->choose();
  if (broadcasts_ && (from_buffers() || awaited_.choice == nullptr))
    asked_ = asked_so_far_ = asked_so_far_ % kLastNumber + 1;
}

bool CallWay::suits_buffers(const HostCall& call) const noexcept {
  return !only_slots_ && group_->reads_buffers() &&
         BufferReader::suits(call.collective, call.problem.bytes(), group_->size());
}

void CallWay::give_up_buffers() noexcept {
  only_slots_ = true;
  way_ = HostWay::kThroughSlots;
  choice_ = nullptr;
  leads_ = false;
  asked_ = 0;
}

void CallWay::heed(int rank, const Announcement& theirs) noexcept {
  if (choice_ == nullptr || rank != leader_) return;
  const std::uint32_t said = theirs.next_way;
  choice_->set((said & 1) == 0 ? HostWay::kThroughSlots : HostWay::kFromBuffers);
  asked_ = said >> 1;
}

void CallWay::note_others_are_here() noexcept {
  all_are_here_ = true;
  if (leads_ || asked_ != 0) since_ = clock_->now();
}

void CallWay::note_touched(int rank, const std::byte* at, std::size_t bytes) noexcept {
  const std::byte* slots = group_->memory(rank).slots[0];
  // What lies elsewhere is of calls of which there is no choice. An address below becomes a large number.
  const auto begin = reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(slots);
  if (begin < sizeof(RankMemory::slots))
    cold_ |= !touched_[static_cast<std::size_t>(rank)].touch(begin, bytes);
}

void CallWay::answer() noexcept {
  const Duration took = clock_->now() - since_;
  const auto nanoseconds = static_cast<std::uint64_t>(std::max(took, Duration::zero()).count());
  const std::uint64_t answer = std::min(nanoseconds / kNanosecondsPerUnit, kMostUnits) |
                               std::uint64_t{waited_} << kWaitedBit | std::uint64_t{asked_} << kNumberBit;
  group_->own().took[static_cast<std::size_t>(way_)].store(answer, std::memory_order_relaxed);
}

CallWay::Answer CallWay::answer_of_other(HostWay way) const noexcept {
  const RankMemory& other = group_->memory(1 - group_->index());
  const std::uint64_t answer = other.took[static_cast<std::size_t>(way)].load(std::memory_order_relaxed);
  return {static_cast<std::uint32_t>(answer >> kNumberBit), (answer >> kWaitedBit & 1) != 0,
          Duration((answer & kMostUnits) * kNanosecondsPerUnit)};
}

void CallWay::take_time() noexcept {
  if (broadcasts_) return take_time_of_broadcast();
  if (!cold_) choice_->measured(way_, took_ + (clock_->now() - since_), bytes_);
}

/// The root's own time of a call from buffers is right if it did not wait for the other to come. What it
/// took to write the first round, through slots, the other one has waited for if it was there before.
void CallWay::take_time_of_broadcast() noexcept {
  if (from_buffers()) {
    const Answer other = answer_of_other(way_);
    if (other.asked == asked_)
      choice_->measured(way_, other.waited ? took_ + (clock_->now() - since_) : other.took, bytes_);
  } else if (asked_ != 0 && !cold_) {
    awaited_ = {choice_, bytes_, asked_, took_};
  }
}

void CallWay::look_for_answer() noexcept {
  if (awaited_.choice == nullptr) return;
  const Answer other = answer_of_other(HostWay::kThroughSlots);
  if (other.asked != awaited_.asked) return;
  const Duration took = other.waited ? awaited_.first_round + other.took : other.took;
  awaited_.choice->measured(HostWay::kThroughSlots, took, awaited_.bytes);
  awaited_.choice = nullptr;
}

}  // namespace tombolo::collectives
