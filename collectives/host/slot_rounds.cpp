#include "collectives/host/slot_rounds.h"

#include <algorithm>
#include <cstring>

#include "collectives/host/claim_lines.h"
#include "collectives/host/streaming_copy.h"

namespace tombolo::collectives {
namespace {

/// More lines take a processor longer than it waits for the other rank's short call.
constexpr std::size_t kMostClaimed = std::size_t{16} << 10;

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
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
  if (call_.problem.bytes() <= kInlineBytes) return group_.memory(rank).announcements[number % kSlots].bytes;
  return slot(rank, number);
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
  const std::size_t bytes = call_.problem.bytes();
  if (bytes * static_cast<std::size_t>(group_.size()) <= kInlineBytes)
    return group_.memory(from).announcements[number % kSlots].bytes + part * bytes;
  return slot(from, number) + part * plan_.step;
}

/// The chunk of each rank's part of the input.
void SlotRounds::write_parts(std::uint64_t number, Chunk chunk, bool also_own) noexcept {
  const int own = group_.index();
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == own && !also_own) continue;
    const std::byte* from =
        call_.input + static_cast<std::size_t>(rank) * call_.problem.bytes() + chunk.begin;
    contribute(place_of_part(own, rank, number), from, chunk.bytes);
  }
}

void SlotRounds::write(std::size_t round) noexcept {
  const int own = group_.index();
  const bool is_root = own == call_.problem.root;
  const Chunk now = plan_.chunk(round, call_.problem.bytes());
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
      write_parts(number_of(round), now, !combines_own_input());
      break;
    case Collective::kAllToAll:
      write_parts(number_of(round), now, false);
      break;
    case Collective::kScatter:
      if (is_root) write_parts(number_of(round), now, false);
      break;
    case Collective::kAllGather:
      put(place(own, number_of(round)), call_.input + now.begin, now.bytes);
      break;
    case Collective::kBroadcast:
      if (is_root) put(place(own, number_of(round)), call_.input + now.begin, now.bytes);
      break;
    case Collective::kGather:
      if (!is_root) put(place(own, number_of(round)), call_.input + now.begin, now.bytes);
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
      if (plan_.in_parts) return slot(own, number) + static_cast<std::size_t>(other) * plan_.step;
      [[fallthrough]];
    case Collective::kAllGather:
      return place(own, number);
    case Collective::kBarrier:
      break;
  }
  return nullptr;
}

void SlotRounds::claim_next(std::size_t round) noexcept {
  if (std::byte* const at = written_at(number_of(round + 1)))
    claim_lines(at, std::min(plan_.chunk(0, call_.problem.bytes()).bytes, kMostClaimed));
}

void SlotRounds::take_own(std::size_t round) noexcept {
  const int own = group_.index();
  const auto own_place = static_cast<std::size_t>(own);
  const bool is_root = own == call_.problem.root;
  const std::size_t bytes = call_.problem.bytes();
  const Chunk now = plan_.chunk(round, bytes);
  switch (call_.collective) {
    case Collective::kAllToAll:
      take(own, call_.output + own_place * bytes + now.begin, call_.input + own_place * bytes + now.begin,
           now.bytes);
      break;
    case Collective::kScatter:
      if (is_root)
        take(own, call_.output + now.begin, call_.input + own_place * bytes + now.begin, now.bytes);
      break;
    case Collective::kGather:
      if (!is_root) break;
      [[fallthrough]];
    case Collective::kAllGather:
      take(own, call_.output + own_place * bytes + now.begin, call_.input + now.begin, now.bytes);
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
  const auto own_place = static_cast<std::size_t>(own);
  const bool is_root = own == call_.problem.root;
  const std::size_t bytes = call_.problem.bytes();
  const std::uint64_t at = number_of(round);
  const Chunk now = plan_.chunk(round, bytes);
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
          return place(rank, at);
        });
      }
      break;
    case Collective::kReduceScatter:
      combine_all(call_.output + now.begin, now.bytes, [&](int rank) -> const std::byte* {
        if (rank == own && combines_own_input()) return call_.input + own_place * bytes + now.begin;
        return place_of_part(rank, own, at);
      });
      break;
    case Collective::kAllToAll:
      for (int rank = 0; rank < group_.size(); ++rank) {
        std::byte* to = call_.output + static_cast<std::size_t>(rank) * bytes + now.begin;
        if (rank != own) take(rank, to, place_of_part(rank, own, at), now.bytes);
      }
      break;
    case Collective::kScatter:
      if (!is_root)
        take(call_.problem.root, call_.output + now.begin, place_of_part(call_.problem.root, own, at),
             now.bytes);
      break;
    case Collective::kAllGather:
    case Collective::kGather:
      if (call_.collective == Collective::kGather && !is_root) break;
      for (int rank = 0; rank < group_.size(); ++rank) {
        if (rank != own)
          take(rank, call_.output + static_cast<std::size_t>(rank) * bytes + now.begin, place(rank, at),
               now.bytes);
      }
      break;
    case Collective::kBroadcast:
      if (!is_root)
        take(call_.problem.root, call_.output + now.begin, place(call_.problem.root, at), now.bytes);
      break;
    case Collective::kBarrier:
      break;
  }
}

}  // namespace tombolo::collectives
