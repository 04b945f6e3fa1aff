#include "collectives/host/slot_plan.h"

#include <algorithm>
#include <bit>

#include "collectives/host/streaming_copy.h"

namespace tombolo::collectives {
namespace {

/// All-reduces of at most so many bytes are combined by every rank in full, in one round; in larger ones each
/// rank combines a part, which takes a second round. Of 0, 4, 16 and 64 KiB tried with two ranks and with
/// four, on two processors (Intel Xeon, family 6, model 207), one round was the faster one up to 1 KiB, two
/// from 4 KiB.
constexpr std::size_t kWholeBytes = std::size_t{2} << 10;
constexpr std::size_t kCacheLine = 64;
/// Two ranks move less in a round than a slot holds, so that one reads what the other has written while that
/// writes on. Of 16 to 128 KiB tried on two processors (AMD EPYC, family 25, model 17) 64 were the fastest,
/// or within a tenth of it, for every collective of 64 KiB to 16 MiB.
constexpr std::size_t kRoundBytesOfTwo = std::size_t{64} << 10;
/// What one of two ranks gives to the other goes in so many rounds of at least so many bytes, so that one
/// reads while the other writes on. On two processors (Intel Xeon, family 6, model 167) broadcasts and
/// reduces of 64 KiB took 0.82 of the time that they took in one round, and reduces of 16 KiB 0.89; rounds of
/// 4 KiB were slower.
constexpr std::size_t kRoundsOfOneWay = 4, kLeastRoundOfOneWay = std::size_t{8} << 10;
static_assert(std::has_single_bit(kSlotBytes / kRoundBytesOfTwo) && std::has_single_bit(kSlots) &&
              std::has_single_bit(kSlotsOfMany));
std::size_t whole_lines(std::size_t bytes) noexcept {
  return bytes / kCacheLine * kCacheLine;
}

/// Gathers of more ranks stay in the caches: with eight ranks on two processors (AMD EPYC, family 25, model
/// 17) one of 128 MiB took 2.3 times as long past them; with two and four one took 0.6 to 0.8 of the time.
constexpr std::size_t kMostToGather = 4;

/// What a call that can go past the caches writes into the outputs of all ranks together; 0 of others. Of
/// parts that not all ranks know: as if the others were like those that this rank knows.
std::size_t bytes_copied(const HostCall& call, std::size_t ranks) noexcept {
  const Problem& problem = call.problem;
  switch (call.collective) {
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return ranks * problem.bytes_of_all(static_cast<int>(ranks));
    case Collective::kBroadcast:
      return ranks * problem.bytes();
    case Collective::kScatter:
      return problem.bytes_of_all(static_cast<int>(ranks));
    case Collective::kGather:
      return ranks <= kMostToGather ? problem.bytes_of_all(static_cast<int>(ranks)) : 0;
    default:
      return 0;
  }
}

/// Whether each rank's slot has a part for each other rank.
bool writes_parts(Collective collective) noexcept {
  return collective == Collective::kReduceScatter || collective == Collective::kScatter ||
         collective == Collective::kAllToAll;
}

/// Whether one round between two ranks moves it all through small slots. What fits beside the announcements
/// needs no slots, so that one rank can be further ahead of the other there.
bool is_small(std::size_t written) noexcept {
  return written > kInlineBytes && written <= kSmallSlotBytes / 2;  // reductions need room to combine in
}

constexpr std::size_t rounds_of(std::size_t bytes, std::size_t step) noexcept {
  return (bytes + step - 1) / step;
}

}  // namespace

SlotPlan::SlotPlan(const HostCall& call, int size, const compute::LastLevelCaches& caches) noexcept {
  const auto ranks = static_cast<std::size_t>(size);
  const std::size_t bytes = longest = call.problem.bytes_of_longest();
  const std::size_t written = writes_parts(call.collective) ? ranks * bytes : bytes;
  open = call.has_unknown_parts();
  beside = !open && written <= kInlineBytes;
  copied = bytes_copied(call, ranks);
  streams = kCanStream && copied > 0 && caches.bytes > 0 && copied >= caches.bytes;
  small = ranks == 2 && !open && is_small(written);
  depth = ranks > 2 ? kSlotsOfMany : small ? kSmallSlots : kSlots;
  round_bytes = ranks > 2 ? kSlotBytes : small ? kSmallSlotBytes : kRoundBytesOfTwo;
  last_part = ranks > 2 ? 0 : kSlotBytes / kRoundBytesOfTwo - 1;
  step = stride = round_bytes;
  std::size_t extra = 0;
  switch (call.collective) {
    case Collective::kAllReduce:
      in_parts = bytes > kWholeBytes;
      if (!in_parts) break;
      step = whole_lines(round_bytes / ranks);
      summing = rounds_of(host_part({0, bytes}, 0, size).bytes, step);
      break;
    case Collective::kReduce:
      // Of two ranks the other one writes a chunk while the root combines the one before.
      in_parts = ranks > 2 && bytes > kWholeBytes;
      // A slot holds the parts of a chunk, the combined part of the one before, and room to combine in.
      if (in_parts) {
        step = whole_lines(round_bytes / (ranks + 2)) * ranks;
        extra = 1;
      } else {
        step = step_of_one_way(bytes, ranks);
      }
      break;
    case Collective::kBroadcast:
      step = step_of_one_way(bytes, ranks);
      break;
    case Collective::kReduceScatter:
    case Collective::kScatter:
    case Collective::kAllToAll:
      step = stride = whole_lines(round_bytes / ranks);
      break;
    case Collective::kAllGather:
    case Collective::kGather:
    case Collective::kBarrier:
      break;
  }
  if (open) step -= kCacheLine;  // in the first round a part's length is before its bytes
  if (summing > 0) {
    rounds = summing + rounds_of(host_part({0, bytes}, 0, size).bytes, round_bytes);
  } else {
    rounds = std::max<std::size_t>(1, rounds_of(bytes, step)) + extra;
  }
}

/// The bytes of a round of a call in which all bytes come from one rank or go to one.
std::size_t SlotPlan::step_of_one_way(std::size_t bytes, std::size_t ranks) const noexcept {
  if (ranks > 2) return round_bytes;
  return std::clamp(whole_lines(bytes / kRoundsOfOneWay), std::min(kLeastRoundOfOneWay, round_bytes),
                    round_bytes);
}

void SlotPlan::only_spread(std::size_t longest_sum) noexcept {
  summing = 0;
  rounds = rounds_of(longest_sum, round_bytes);
}

void SlotPlan::skip(std::size_t there, std::size_t bytes) noexcept {
  done = std::min(there, bytes);
  rounds = std::max<std::size_t>(1, rounds_of(bytes - done, step));
}

}  // namespace tombolo::collectives
