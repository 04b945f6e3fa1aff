#include "collectives/host/slot_rounds.h"

#include <algorithm>
#include <cstring>

#include "collectives/host/prefetch_for_write.h"
#include "collectives/host/streaming_copy.h"

namespace tombolo::collectives {
namespace {

/// More lines take a processor longer than it waits for the other rank's short call.
constexpr std::size_t kMostPrefetched = std::size_t{16} << 10;

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

/// A buffer of empty parts may be null, and their offsets anything.
template <typename Byte>
Byte* at(Byte* buffer, Chunk chunk) noexcept {
  return chunk.bytes == 0 ? buffer : buffer + chunk.begin;
}

}  // namespace

void SlotRounds::put(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  traffic_.written += bytes;
  way_.touches(group_.index(), to, bytes);
  copy_bytes(to, from, bytes);
}

void SlotRounds::contribute(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (!call_.problem.premultiplied) return put(to, from, bytes);
  traffic_.written += bytes;
  way_.touches(group_.index(), to, bytes);
  premultiply(to, from, bytes / call_.problem.element_bytes, call_.type, call_.factor);
}

void SlotRounds::take(int rank, std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (rank != group_.index()) {
    traffic_.read += bytes;
    way_.touches(rank, from, bytes);
  }
  (plan_.streams ? copy_past_caches : copy_bytes)(to, from, bytes);
}

std::byte* SlotRounds::place(int rank, std::uint64_t number) const noexcept {
  if (plan_.beside) return group_.memory(rank).announcements[number % kSlots].bytes;
  return slot(rank, number) + length_before(number);
}

template <typename At>
void SlotRounds::combine_all(std::byte* output, std::size_t bytes, const At& at) noexcept {
  const std::size_t count = bytes / call_.problem.element_bytes;
  if (count == 0) return;
  traffic_.read += bytes * static_cast<std::size_t>(group_.size() - 1);
  for (int rank = 0; rank < group_.size(); ++rank)
    if (rank != group_.index()) way_.touches(rank, at(rank), bytes);
  combine(output, at(0), at(1), count, call_.type, call_.op);
  for (int rank = 2; rank < group_.size(); ++rank)
    combine(output, output, at(rank), count, call_.type, call_.op);
  if (call_.problem.average) divide(output, count, call_.type, static_cast<std::size_t>(group_.size()));
}

/// Part p of the chunk of every rank's vector lies at the place of its own bytes in the slot.
void SlotRounds::write_reduce(std::size_t round) noexcept {
  const int own = group_.index();
  std::byte* to = slot(own, number_of(round));
  const Chunk now = plan_.chunk(round, call_.problem.bytes());
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == own && combines_own_input()) continue;
    const Chunk theirs = part(now, rank);
    contribute(to + (theirs.begin - now.begin), call_.input + theirs.begin, theirs.bytes);
  }
  if (round == 0) return;
  const Chunk before = part(plan_.chunk(round - 1, call_.problem.bytes()), own);
  put(to + plan_.step, combined(round - 1, before), before.bytes);
}

std::byte* SlotRounds::combined(std::size_t round, Chunk part) const noexcept {
  const int own = group_.index();
  if (own == call_.problem.root) return call_.output + part.begin;
  return slot(own, number_of(round)) + plan_.step + plan_.step / static_cast<std::size_t>(group_.size());
}

void SlotRounds::read_reduce(std::size_t round) noexcept {
  const int own = group_.index();
  if (round > 0 && own == call_.problem.root) {
    const Chunk before = plan_.chunk(round - 1, call_.problem.bytes());
    for (int rank = 0; rank < group_.size(); ++rank) {
      const Chunk theirs = part(before, rank);
      if (rank != own)
        take(rank, call_.output + theirs.begin, slot(rank, number_of(round)) + plan_.step, theirs.bytes);
    }
  }
  const Chunk now = plan_.chunk(round, call_.problem.bytes());
  const Chunk mine = part(now, own);
  combine_all(combined(round, mine), mine.bytes, [&](int rank) -> const std::byte* {
    if (rank == own && combines_own_input()) return call_.input + mine.begin;
    return slot(rank, number_of(round)) + (mine.begin - now.begin);
  });
}

/// First a step of every rank's part of the input, then one of this rank's sums.
void SlotRounds::write_all_reduce(std::size_t round) noexcept {
  const int own = group_.index();
  std::byte* to = slot(own, number_of(round));
  if (round >= plan_.summing) {
    const Chunk now = host_step(sum_of(own), round - plan_.summing, plan_.round_bytes);
    return put(to, call_.output + now.begin, now.bytes);
  }
  for (int rank = 0; rank < group_.size(); ++rank, to += plan_.step) {
    if (rank == own && combines_own_input()) continue;
    const Chunk now = host_step(sum_of(rank), round, plan_.step);
    contribute(to, call_.input + now.begin, now.bytes);
  }
}

void SlotRounds::read_all_reduce(std::size_t round) noexcept {
  const int own = group_.index();
  if (round >= plan_.summing) {
    for (int rank = 0; rank < group_.size(); ++rank) {
      const Chunk now = host_step(sum_of(rank), round - plan_.summing, plan_.round_bytes);
      if (rank != own) take(rank, call_.output + now.begin, slot(rank, number_of(round)), now.bytes);
    }
    return;
  }
  const Chunk now = host_step(sum_of(own), round, plan_.step);
  combine_all(call_.output + now.begin, now.bytes, [&](int rank) -> const std::byte* {
    if (rank == own && combines_own_input()) return call_.input + now.begin;
    return slot(rank, number_of(round)) + static_cast<std::size_t>(own) * plan_.step;
  });
}

std::byte* SlotRounds::place_of_part(int from, int to, std::uint64_t number) const noexcept {
  const auto part = static_cast<std::size_t>(to);
  if (plan_.beside) return group_.memory(from).announcements[number % kSlots].bytes + part * plan_.longest;
  return slot(from, number) + part * plan_.stride + length_before(number);
}

/// The round's chunk of each rank's part of the input.
void SlotRounds::write_parts(std::size_t round, bool also_own) noexcept {
  const int own = group_.index();
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == own && !also_own) continue;
    const Chunk part = call_.given_to(rank), now = plan_.chunk(round, part);
    std::byte* const to = place_of_part(own, rank, number_of(round));
    if (says_lengths(round)) say_length(to, part.bytes);
    contribute(to, at(call_.input, now), now.bytes);
  }
}

void SlotRounds::say_length(std::byte* part, std::size_t bytes) const noexcept {
  const std::uint64_t length = bytes;
  std::memcpy(part - sizeof(length), &length, sizeof(length));
}

std::optional<WrongPart> SlotRounds::compare_length(int rank, const std::byte* part,
                                                    std::size_t expected) const noexcept {
  std::uint64_t length = 0;
  std::memcpy(&length, part - sizeof(length), sizeof(length));
  if (length == expected) return std::nullopt;
  return WrongPart{rank, length, expected};
}

/// The root of a gather or a scatter knows all parts. Of an all-to-all all hear all.
std::size_t SlotRounds::rounds_said() const noexcept {
  const bool rooted = is_rooted(call_.collective);
  std::uint64_t most = 0;
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rooted && rank != call_.problem.root) continue;
    std::uint64_t said = 0;
    std::memcpy(&said, group_.memory(rank).announcements[first_ % kSlots].bytes, sizeof(said));
    most = std::max(most, said);
  }
  return most;
}

std::optional<WrongPart> SlotRounds::wrong_part() const noexcept {
  const int own = group_.index(), root = call_.problem.root;
  if (call_.collective == Collective::kScatter) {
    if (own == root) return std::nullopt;
    return compare_length(root, place_of_part(root, own, first_), call_.problem.bytes());
  }
  if (call_.collective == Collective::kGather && own != root) return std::nullopt;
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == own) continue;
    const std::byte* const part =
        call_.collective == Collective::kGather ? place(rank, first_) : place_of_part(rank, own, first_);
    if (const auto wrong = compare_length(rank, part, call_.taken_from(rank).bytes)) return wrong;
  }
  return std::nullopt;
}

void SlotRounds::write(std::size_t round) noexcept {
  const int own = group_.index();
  const bool is_root = own == call_.problem.root;
  const Chunk now = plan_.chunk(round, call_.problem.bytes());
  if (says_lengths(round)) {
    const std::uint64_t rounds = plan_.rounds;
    std::memcpy(group_.own().announcements[first_ % kSlots].bytes, &rounds, sizeof(rounds));
  }
  switch (call_.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      if (plan_.in_parts && call_.collective == Collective::kAllReduce) {
        write_all_reduce(round);
      } else if (plan_.in_parts) {
        write_reduce(round);
      } else {
        if (call_.collective == Collective::kAllReduce || !is_root || !combines_own_input())
          contribute(place(own, number_of(round)), call_.input + now.begin, now.bytes);
      }
      break;
    case Collective::kReduceScatter:
      write_parts(round, !combines_own_input());
      break;
    case Collective::kAllToAll:
      write_parts(round, false);
      break;
    case Collective::kScatter:
      if (is_root) write_parts(round, false);
      break;
    case Collective::kAllGather:
      put(place(own, number_of(round)), call_.input + now.begin, now.bytes);
      break;
    case Collective::kBroadcast:
      if (is_root) put(place(own, number_of(round)), call_.input + now.begin, now.bytes);
      break;
    case Collective::kGather:
      if (is_root) break;
      if (says_lengths(round)) say_length(place(own, first_), call_.problem.bytes());
      put(place(own, number_of(round)), call_.input + now.begin, now.bytes);
      break;
    case Collective::kBarrier:
      break;
  }
}

std::byte* SlotRounds::written_at(std::uint64_t number) const noexcept {
  const int own = group_.index(), other = 1 - own;
  const bool is_root = own == call_.problem.root;
  switch (call_.collective) {
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return place_of_part(own, other, number);
    case Collective::kScatter:
      return is_root ? place_of_part(own, other, number) : nullptr;
    case Collective::kBroadcast:
      return is_root ? place(own, number) : nullptr;
    case Collective::kGather:
    case Collective::kReduce:
      return is_root ? nullptr : place(own, number);
    case Collective::kAllReduce:
      // First the other's part of the input, then this rank's sums.
      if (plan_.in_parts)
        return slot(own, number) + (sums_up(number) ? static_cast<std::size_t>(other) * plan_.step : 0);
      [[fallthrough]];
    case Collective::kAllGather:
      return place(own, number);
    case Collective::kBarrier:
      break;
  }
  return nullptr;
}

void SlotRounds::prefetch_next(std::size_t round) noexcept {
  if (std::byte* const at = written_at(number_of(round + 1)))
    prefetch_for_write(at, std::min(plan_.chunk(0, plan_.longest).bytes, kMostPrefetched));
}

void SlotRounds::take_own(std::size_t round) noexcept {
  const int own = group_.index();
  const bool is_root = own == call_.problem.root;
  const Chunk now = plan_.chunk(round, call_.problem.bytes());
  switch (call_.collective) {
    case Collective::kAllToAll: {
      const Chunk from = plan_.chunk(round, call_.given_to(own)),
                  to = plan_.chunk(round, call_.taken_from(own));
      take(own, at(call_.output, to), at(call_.input, from), to.bytes);
      break;
    }
    case Collective::kScatter:
      if (is_root)
        take(own, call_.output + now.begin, at(call_.input, plan_.chunk(round, call_.given_to(own))),
             now.bytes);
      break;
    case Collective::kGather:
      if (!is_root) break;
      [[fallthrough]];
    case Collective::kAllGather:
      take(own, at(call_.output, plan_.chunk(round, call_.taken_from(own))), call_.input + now.begin,
           now.bytes);
      break;
    case Collective::kBroadcast:
      if (is_root) take(own, call_.output + now.begin, call_.input + now.begin, now.bytes);
      break;
    default:
      break;
  }
}

void SlotRounds::read(std::size_t round) noexcept {
  const int own = group_.index();
  const bool is_root = own == call_.problem.root;
  const std::uint64_t number = number_of(round);
  const Chunk now = plan_.chunk(round, call_.problem.bytes());
  switch (call_.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      if (plan_.in_parts && call_.collective == Collective::kAllReduce) {
        read_all_reduce(round);
      } else if (plan_.in_parts) {
        read_reduce(round);
      } else if (call_.collective == Collective::kAllReduce || is_root) {
        combine_all(call_.output + now.begin, now.bytes, [&](int rank) -> const std::byte* {
          if (rank == own && combines_own_input()) return call_.input + now.begin;
          return place(rank, number);
        });
      }
      break;
    case Collective::kReduceScatter:
      combine_all(call_.output + now.begin, now.bytes, [&](int rank) -> const std::byte* {
        if (rank == own && combines_own_input()) return call_.input + call_.given_to(own).begin + now.begin;
        return place_of_part(rank, own, number);
      });
      break;
    case Collective::kAllToAll:
      for (int rank = 0; rank < group_.size(); ++rank) {
        const Chunk theirs = plan_.chunk(round, call_.taken_from(rank));
        if (rank != own) take(rank, at(call_.output, theirs), place_of_part(rank, own, number), theirs.bytes);
      }
      break;
    case Collective::kScatter:
      if (!is_root)
        take(call_.problem.root, call_.output + now.begin, place_of_part(call_.problem.root, own, number),
             now.bytes);
      break;
    case Collective::kAllGather:
    case Collective::kGather:
      if (call_.collective == Collective::kGather && !is_root) break;
      for (int rank = 0; rank < group_.size(); ++rank) {
        const Chunk theirs = plan_.chunk(round, call_.taken_from(rank));
        if (rank != own) take(rank, at(call_.output, theirs), place(rank, number), theirs.bytes);
      }
      break;
    case Collective::kBroadcast:
      if (!is_root)
        take(call_.problem.root, call_.output + now.begin, place(call_.problem.root, number), now.bytes);
      break;
    case Collective::kBarrier:
      break;
  }
}

}  // namespace tombolo::collectives
