#include "collectives/host/call_way.h"

#include <algorithm>
#include <optional>

#include "collectives/host/buffer_reader.h"

namespace tombolo::collectives {
namespace {

/// Where the choices for a collective begin: one for each rank that may lead it, and only scatters have a
/// choice among more than two ranks that any of them may lead.
std::size_t first_row(Collective collective) noexcept {
  switch (collective) {
    case Collective::kAllToAll:
      return 0;
    case Collective::kAllGather:
      return 1;
    case Collective::kAllReduce:
      return 2;
    case Collective::kGather:
      return 3;
    case Collective::kReduce:
      return 5;
    case Collective::kScatter:
      return 9;
    default:  // a broadcast
      return 7;
  }
}

/// The one that gives where all others only get; nothing where there are several. Gathers and reduces of more
/// than two ranks have one way.
std::optional<int> only_giver(const HostCall& call) noexcept {
  switch (call.collective) {
    case Collective::kBroadcast:
    case Collective::kScatter:
      return call.problem.root;
    case Collective::kGather:
    case Collective::kReduce:
      return 1 - call.problem.root;
    default:
      return std::nullopt;
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
  // Of more ranks few calls have a choice: pages that the others have touched count as untouched.
  notes_touched_ =
      group_->reads_buffers() &&
      (group_->size() == 2 || BufferReader::suits(call.collective, call.problem.bytes(), group_->size()));
  if (!suits_buffers(call)) return;
  // Slots that are in another cache than their reader are slower than buffers.
  const compute::LastLevelCaches caches = group_->caches();
  const bool slots_are_faster = streams && caches.count == 1 &&
                                BufferReader::is_slower_than_streams(group_->size(), copied / caches.bytes);
  const HostWay first = slots_are_faster ? HostWay::kThroughSlots : HostWay::kFromBuffers;
  way_ = first;
  const std::optional<int> giver = only_giver(call);
  one_gives_ = giver.has_value();
  leader_ = giver.value_or(0);
  leads_ = leader_ == group_->index();
  bytes_ = call.problem.bytes();
  choice_ = &choices_.at(first_row(call.collective) + static_cast<std::size_t>(leader_), bytes_);
  way_ = choice_->way_or(first);
  took_ = {};
  waited_ = all_are_here_ = cold_ = false;
  if (!leads_) return;
  look_for_answer();
  choice_->choose();
  if (one_gives_ && (from_buffers() || awaited_.choice == nullptr))
    asked_ = questions_ = questions_ % kLastNumber + 1;
}

bool CallWay::suits_buffers(const HostCall& call) const noexcept {
  return !call.problem.uneven && !only_slots_[first_row(call.collective)] && group_->reads_buffers() &&
         BufferReader::suits(call.collective, call.problem.bytes(), group_->size());
}

void CallWay::give_up_buffers(Collective collective) noexcept {
  only_slots_[first_row(collective)] = true;
  way_ = HostWay::kThroughSlots;
  choice_ = nullptr;
  leads_ = false;
  asked_ = 0;
}

void CallWay::heed(int rank, const Announcement& theirs) noexcept {
  if (choice_ == nullptr || rank != leader_) return;
  const std::uint32_t said = theirs.next_way;
  choice_->set((said & 1) == 0 ? HostWay::kThroughSlots : HostWay::kFromBuffers);
  // One rank answers, so that its answer stays until this leader asks again.
  asked_ = answers_leader() ? said >> 1 : 0;
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

CallWay::Answer CallWay::answer_of_getter(HostWay way) const noexcept {
  const RankMemory& other = group_->memory((group_->index() + 1) % group_->size());
  const std::uint64_t answer = other.took[static_cast<std::size_t>(way)].load(std::memory_order_relaxed);
  return {static_cast<std::uint32_t>(answer >> kNumberBit), (answer >> kWaitedBit & 1) != 0,
          Duration((answer & kMostUnits) * kNanosecondsPerUnit)};
}

void CallWay::take_time() noexcept {
  if (one_gives_) return take_time_of_getter();
  if (!cold_) choice_->measured(way_, took_ + (clock_->now() - since_), bytes_);
}

/// Of two ranks: the giver's own time of a call from buffers is right if it did not wait for the other to
/// come. What it took to write the first round, through slots, the other one has waited for if it was there
/// before. Of more: a getter that came late finds all written, and the giver may be done before any has read;
/// the longer time of the two counts.
Duration CallWay::took_with(HostWay way, const Answer& getter, Duration own) const noexcept {
  if (group_->size() > 2) return std::max(own, getter.took);
  if (!getter.waited) return getter.took;
  return way == HostWay::kFromBuffers ? own : own + getter.took;
}

void CallWay::take_time_of_getter() noexcept {
  const Duration own = took_ + (clock_->now() - since_);
  if (from_buffers()) {
    const Answer getter = answer_of_getter(way_);
    if (getter.asked == asked_) choice_->measured(way_, took_with(way_, getter, own), bytes_);
  } else if (asked_ != 0 && !cold_) {
    awaited_ = {choice_, bytes_, asked_, group_->size() > 2 ? own : took_};
  }
}

void CallWay::look_for_answer() noexcept {
  if (awaited_.choice == nullptr) return;
  const Answer getter = answer_of_getter(HostWay::kThroughSlots);
  if (getter.asked != awaited_.asked) return;
  awaited_.choice->measured(HostWay::kThroughSlots, took_with(HostWay::kThroughSlots, getter, awaited_.own),
                            awaited_.bytes);
  awaited_.choice = nullptr;
}

}  // namespace tombolo::collectives
