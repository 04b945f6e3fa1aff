#include "collectives/host/host_collective.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

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
/// Rounds of one call of progress() at most, whatever the others do meanwhile: its thread has other things to
/// do.
constexpr int kRoundsAtOnce = 8;

std::size_t whole_lines(std::size_t bytes) noexcept {
  return bytes / kCacheLine * kCacheLine;
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

/// Gathers of more ranks stay in the caches: with eight ranks on two processors (AMD EPYC, family 25, model
/// 17) one of 128 MiB took 2.3 times as long past them; with two and four one took 0.6 to 0.8 of the time.
constexpr std::size_t kMostToGather = 4;

/// What a call that can go past the caches writes into the outputs of all ranks together; 0 of others.
std::size_t bytes_copied(Collective collective, std::size_t bytes, std::size_t ranks) noexcept {
  switch (collective) {
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return ranks * ranks * bytes;
    case Collective::kBroadcast:
    case Collective::kScatter:
      return ranks * bytes;
    case Collective::kGather:
      return ranks <= kMostToGather ? ranks * bytes : 0;
    default:
      return 0;
  }
}

/// Whether one round between two ranks moves it all through small slots. What fits beside the announcements
/// needs no slots, so that one rank can be further ahead of the other there.
bool is_small(Collective collective, std::size_t bytes) noexcept {
  const bool parts = collective == Collective::kReduceScatter || collective == Collective::kScatter ||
                     collective == Collective::kAllToAll;
  const std::size_t written = parts ? 2 * bytes : bytes;
  return written > kInlineBytes && written <= kSmallSlotBytes / 2;  // reductions need room to combine in
}

constexpr std::uint64_t kHashFactor = 0x100000001b3, kFromBuffersFact = std::uint64_t{1} << 32;

/// A hash of what all ranks must agree on.
std::uint64_t facts_of(const HostCall& call) noexcept {
  const std::uint64_t facts[] = {static_cast<std::uint64_t>(call.collective),
                                 call.problem.count,
                                 call.problem.element_bytes,
                                 static_cast<std::uint64_t>(call.problem.root),
                                 static_cast<std::uint64_t>(call.op),
                                 call.problem.average};
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a's, by words
  for (const std::uint64_t fact : facts) hash = (hash ^ fact) * kHashFactor;
  return hash;
}

bool same_facts(const HostCall& a, const HostCall& b) noexcept {
  return a.collective == b.collective && a.op == b.op && a.problem.count == b.problem.count &&
         a.problem.element_bytes == b.problem.element_bytes && a.problem.root == b.problem.root &&
         a.problem.average == b.problem.average;
}

/// Of these facts and the hash of the call before, so that whoever has made another call at which no rank has
/// looked is found by the next one.
std::uint32_t hash_after(std::uint32_t before, std::uint64_t facts) noexcept {
  const std::uint64_t hash = (before ^ facts) * kHashFactor;
  return static_cast<std::uint32_t>(hash >> 32 ^ hash);
}

}  // namespace

Chunk HostCollective::chunk(std::size_t round, std::size_t of) const noexcept {
  return host_step({done_, of - done_}, round, step_);
}

void HostCollective::start(const HostCall& call) noexcept {
  const bool again = facts_ != 0 && same_facts(call, call_);
  call_ = call;
  first_ += rounds_;
  round_ = 0;
  done_ = 0;
  announced_ = false;
  looked_ = 0;
  if (!again) facts_ = facts_of(call);
  if (!again || !settled_) prepare();
  hash_ = hash_after(hash_, facts_ ^ (way_.from_buffers() ? kFromBuffersFact : 0));
}

void HostCollective::prepare() noexcept {
  const auto ranks = static_cast<std::size_t>(group_.size());
  const std::size_t bytes = call_.problem.bytes();
  in_parts_ = false;
  const std::size_t copied = bytes_copied(call_.collective, bytes, ranks);
  const compute::LastLevelCaches caches = group_.caches();
  streams_ = kCanStream && copied > 0 && caches.bytes > 0 && copied >= caches.bytes;
  way_.begin(call_, copied, streams_);
  settled_ = way_.is_settled();
  small_ = ranks == 2 && is_small(call_.collective, bytes);
  depth_ = ranks > 2 ? kSlotsOfMany : small_ ? kSmallSlots : kSlots;
  round_bytes_ = ranks > 2 ? kSlotBytes : small_ ? kSmallSlotBytes : kRoundBytesOfTwo;
  last_part_ = ranks > 2 ? 0 : kSlotBytes / kRoundBytesOfTwo - 1;
  summing_ = 0;
  if (way_.from_buffers()) reader_.start(call_);
  step_ = round_bytes_;
  std::size_t extra = 0;
  switch (call_.collective) {
    case Collective::kAllReduce:
      in_parts_ = bytes > kWholeBytes;
      if (!in_parts_) break;
      step_ = whole_lines(round_bytes_ / ranks);
      summing_ = (sum_of(0).bytes + step_ - 1) / step_;
      break;
    case Collective::kReduce:
      // Of two ranks the other one writes a chunk while the root combines the one before.
      in_parts_ = ranks > 2 && bytes > kWholeBytes;
      // A slot holds the parts of a chunk, the combined part of the one before, and room to combine in.
      if (in_parts_) {
        step_ = whole_lines(round_bytes_ / (ranks + 2)) * ranks;
        extra = 1;
      } else {
        step_ = step_of_one_way(bytes);
      }
      break;
    case Collective::kBroadcast:
      step_ = step_of_one_way(bytes);
      break;
    case Collective::kReduceScatter:
    case Collective::kScatter:
    case Collective::kAllToAll:
      step_ = whole_lines(round_bytes_ / ranks);
      break;
    case Collective::kAllGather:
    case Collective::kGather:
    case Collective::kBarrier:
      break;
  }
  if (way_.from_buffers()) {
    rounds_ = summing_ + 2;
  } else if (summing_ > 0) {
    rounds_ = summing_ + spreading_rounds();
  } else {
    rounds_ = std::max<std::size_t>(1, (bytes + step_ - 1) / step_) + extra;
  }
  prepare_needed();
}

std::size_t HostCollective::step_of_one_way(std::size_t bytes) const noexcept {
  if (group_.size() > 2) return round_bytes_;
  return std::clamp(whole_lines(bytes / kRoundsOfOneWay), std::min(kLeastRoundOfOneWay, round_bytes_),
                    round_bytes_);
}

std::size_t HostCollective::spreading_rounds() const noexcept {
  return (sum_of(0).bytes + round_bytes_ - 1) / round_bytes_;
}

void HostCollective::take_slots() noexcept {
  way_.give_up_buffers(call_.collective);
  if (call_.collective != Collective::kAllReduce) {
    const std::uint64_t last = number(rounds_ - 1);
    start(call_);
    if (call_.collective == Collective::kReduce) skip_combined(last);
    return;
  }
  // In place the parts that were summed up have no input any more; but the sums are there, and go on.
  first_ += rounds_;
  round_ = summing_ = 0;
  rounds_ = spreading_rounds();
}

/// In place the root has no input any more of what it has combined.
void HostCollective::skip_combined(std::uint64_t number) noexcept {
  const std::byte* said = group_.memory(call_.problem.root).announcements[number % kSlots].bytes;
  std::uint64_t combined = 0;
  std::memcpy(&combined, said + sizeof(combined), sizeof(combined));
  settled_ = false;  // the next call has all rounds
  done_ = std::min<std::uint64_t>(combined, call_.problem.bytes());
  rounds_ = std::max<std::size_t>(1, (call_.problem.bytes() - done_ + step_ - 1) / step_);
}

void HostCollective::prepare_needed() noexcept {
  first_needed_ = 0;
  after_needed_ = group_.size();
  if (way_.from_buffers()) return;
  const int root = call_.problem.root;
  switch (call_.collective) {
    case Collective::kBroadcast:
    case Collective::kScatter:
      first_needed_ = root;
      after_needed_ = root + 1;
      break;
    case Collective::kGather:
      if (group_.index() != root) after_needed_ = 0;
      break;
    case Collective::kReduce:
      if (!in_parts_ && group_.index() != root) after_needed_ = 0;
      break;
    default:
      break;
  }
}

bool HostCollective::owes(int rank) const noexcept {
  if (finished() || rank == group_.index()) return false;
  if (way_.from_buffers() && round_ == summing_ && reader_.awaits(rank)) return true;
  const std::uint64_t last = number(rounds_ - 1);
  // The slot of the last round is free once everyone has announced the round that all_announced() asks for.
  return !group_.has_announced(rank, needs(rank) ? last : last - std::min(last, depth_ - 1));
}

bool HostCollective::has_announced(int rank, std::uint64_t number) noexcept {
  std::uint64_t& seen = seen_[static_cast<std::size_t>(rank)];
  if (seen >= number) return true;
  // Whoever keeps up has announced the newest round, too; then the next calls need not look. A root looks at
  // nothing else of the others, and each look brings a line from another processor.
  seen = std::max(seen, group_.announced(rank, number + depth_ - 2));
  if (seen < number) seen = std::max(seen, group_.announced(rank, number));
  return seen >= number;
}

bool HostCollective::all_announced(std::uint64_t number) noexcept {
  if (seen_of_all_ >= number) return true;
  for (; looked_ < group_.size(); ++looked_) {
    if (looked_ == group_.index() || has_announced(looked_, number)) continue;
    awaited_ = looked_;
    return false;
  }
  looked_ = 0;
  std::uint64_t of_all = ~std::uint64_t{0};
  for (int rank = 0; rank < group_.size(); ++rank)
    if (rank != group_.index()) of_all = std::min(of_all, seen_[static_cast<std::size_t>(rank)]);
  seen_of_all_ = of_all;
  return true;
}

bool HostCollective::needed_announced(std::uint64_t number) noexcept {
  for (looked_ = std::max(looked_, first_needed_); looked_ < after_needed_; ++looked_) {
    if (looked_ == group_.index()) continue;
    if (!group_.has_announced(looked_, number)) {
      awaited_ = looked_;
      if (round_ == 0) way_.awaits_others();
      return false;
    }
    const Announcement& theirs = group_.memory(looked_).announcements[number % kSlots];
    if (theirs.call != hash_) {
      mismatch_ = looked_;
      return false;
    }
    way_.heed(looked_, theirs);
  }
  looked_ = 0;
  if (round_ == 0) way_.others_are_here();
  return true;
}

bool HostCollective::progress() noexcept {
  bool moved = false;
  for (int rounds = 0; rounds < kRoundsAtOnce && !finished() && !mismatch_; ++rounds) {
    const std::uint64_t now = number(round_);
    if (!announced_) {
      if (now >= depth_ && !all_announced(now - depth_ + 1)) return moved;
      Announcement& own = group_.own().announcements[now % kSlots];
      own.call = hash_;
      way_.announce(own);
      if (round_ == 0) way_.writes_first_round();
      write_round(now);
      group_.announce(now);
      if (!way_.from_buffers()) take_own(round_);
      if (round_ == 0) way_.has_written_first_round();
      announced_ = true;
      moved = true;
    }
    if (!read_round(now, moved)) return moved;
    announced_ = false;
    ++round_;
    moved = true;
    if (!finished()) continue;
    way_.end();
    if (!way_.from_buffers()) continue;
    if (any_failed_to_read(now)) {
      take_slots();
    } else {
      count_read_buffers();
    }
  }
  return moved;
}

void HostCollective::write_round(std::uint64_t number) noexcept {
  if (!way_.from_buffers() || round_ < summing_) return write(round_);
  std::byte* announcement = group_.own().announcements[number % kSlots].bytes;
  if (round_ == summing_) {
    reader_.announce(announcement);
  } else {
    announcement[0] = std::byte{reader_.failed()};
    const std::uint64_t combined = reader_.combined();
    std::memcpy(announcement + sizeof(combined), &combined, sizeof(combined));
  }
}

void HostCollective::count_read_buffers() noexcept {
  const std::uint64_t bytes = call_.problem.bytes(), others = static_cast<std::uint64_t>(group_.size() - 1);
  const bool is_root = group_.index() == call_.problem.root;
  switch (call_.collective) {
    case Collective::kAllToAll:
      written_ += others * bytes;
      read_ += others * bytes;
      break;
    case Collective::kAllGather:
      written_ += bytes;
      read_ += others * bytes;
      break;
    case Collective::kAllReduce: {
      const std::uint64_t own = sum_of(group_.index()).bytes;
      written_ += own;
      read_ += bytes - own;
      break;
    }
    case Collective::kGather:
    case Collective::kReduce:
      if (is_root)
        read_ += others * bytes;
      else
        written_ += bytes;
      break;
    case Collective::kScatter:
      if (is_root)
        written_ += others * bytes;
      else
        read_ += bytes;
      break;
    default:  // a broadcast
      (is_root ? written_ : read_) += bytes;
  }
}

bool HostCollective::others_have_copied() noexcept {
  std::uint64_t copied = 0;
  for (int rank = 0; rank < group_.size(); ++rank)
    if (rank != group_.index()) copied += group_.memory(rank).copied.load(std::memory_order_relaxed);
  return std::exchange(copied_by_others_, copied) != copied;
}

bool HostCollective::any_failed_to_read(std::uint64_t number) const noexcept {
  for (int rank = 0; rank < group_.size(); ++rank)
    if (group_.memory(rank).announcements[number % kSlots].bytes[0] != std::byte{0}) return true;
  return false;
}

/// False where the round is not over.
bool HostCollective::read_round(std::uint64_t number, bool& moved) noexcept {
  if (way_.from_buffers() && round_ == summing_) return read_buffers(number, moved);
  if (!needed_announced(number)) return false;
  if (!way_.from_buffers() || round_ < summing_) read(round_);
  return true;
}

bool HostCollective::read_buffers(std::uint64_t number, bool& moved) noexcept {
  std::uint64_t ready = 0;
  bool awaits = false, all_are_here = true;
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (!reader_.awaits(rank)) continue;
    if (rank != group_.index()) {
      if (!std::exchange(awaits, true)) awaited_ = rank;  // also of one that is gone
      if (!group_.has_announced(rank, number)) {
        all_are_here = false;
        continue;
      }
      const Announcement& theirs = group_.memory(rank).announcements[number % kSlots];
      if (theirs.call != hash_) {
        mismatch_ = rank;
        return false;
      }
      way_.heed(rank, theirs);
    }
    ready |= std::uint64_t{1} << rank;
  }
  if (round_ == 0 && all_are_here) way_.others_are_here();
  if (round_ == 0 && !all_are_here) way_.awaits_others();
  moved |= reader_.read(ready, number);
  if (reader_.done()) way_.has_read_buffers();
  return reader_.done();
}

void HostCollective::put(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  written_ += bytes;
  way_.touches(group_.index(), to, bytes);
  copy_bytes(to, from, bytes);
}

void HostCollective::contribute(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (!call_.problem.premultiplied) return put(to, from, bytes);
  written_ += bytes;
  way_.touches(group_.index(), to, bytes);
  premultiply(to, from, bytes / call_.problem.element_bytes, call_.type, call_.factor);
}

void HostCollective::take(int rank, std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  if (rank != group_.index()) {
    read_ += bytes;
    way_.touches(rank, from, bytes);
  }
  (streams_ ? copy_past_caches : copy_bytes)(to, from, bytes);
}

std::byte* HostCollective::place(int rank, std::uint64_t number) const noexcept {
  if (call_.problem.bytes() <= kInlineBytes) return group_.memory(rank).announcements[number % kSlots].bytes;
  return slot(rank, number);
}

template <typename At>
void HostCollective::combine_all(std::byte* output, std::size_t bytes, const At& at) noexcept {
  const std::size_t count = bytes / call_.problem.element_bytes;
  if (count == 0) return;
  read_ += bytes * static_cast<std::size_t>(group_.size() - 1);
  for (int rank = 0; rank < group_.size(); ++rank)
    if (rank != group_.index()) way_.touches(rank, at(rank), bytes);
  combine(output, at(0), at(1), count, call_.type, call_.op);
  for (int rank = 2; rank < group_.size(); ++rank)
    combine(output, output, at(rank), count, call_.type, call_.op);
  if (call_.problem.average) divide(output, count, call_.type, static_cast<std::size_t>(group_.size()));
}

/// Part p of the chunk of every rank's vector lies at the place of its own bytes in the slot.
void HostCollective::write_reduce(std::size_t round) noexcept {
  const int own = group_.index();
  std::byte* to = slot(own, number(round));
  const Chunk now = chunk(round, call_.problem.bytes());
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == own && combines_own_input()) continue;
    const Chunk theirs = part(now, rank);
    contribute(to + (theirs.begin - now.begin), call_.input + theirs.begin, theirs.bytes);
  }
  if (round == 0) return;
  const Chunk before = part(chunk(round - 1, call_.problem.bytes()), own);
  put(to + step_, combined(round - 1, before), before.bytes);
}

std::byte* HostCollective::combined(std::size_t round, Chunk part) const noexcept {
  const int own = group_.index();
  if (own == call_.problem.root) return call_.output + part.begin;
  return slot(own, number(round)) + step_ + step_ / static_cast<std::size_t>(group_.size());
}

void HostCollective::read_reduce(std::size_t round) noexcept {
  const int own = group_.index();
  if (round > 0 && own == call_.problem.root) {
    const Chunk before = chunk(round - 1, call_.problem.bytes());
    for (int rank = 0; rank < group_.size(); ++rank) {
      const Chunk theirs = part(before, rank);
      if (rank != own)
        take(rank, call_.output + theirs.begin, slot(rank, number(round)) + step_, theirs.bytes);
    }
  }
  const Chunk now = chunk(round, call_.problem.bytes());
  const Chunk mine = part(now, own);
  combine_all(combined(round, mine), mine.bytes, [&](int rank) -> const std::byte* {
    if (rank == own && combines_own_input()) return call_.input + mine.begin;
    return slot(rank, number(round)) + (mine.begin - now.begin);
  });
}

/// First a step of every rank's part of the input, then one of this rank's sums.
void HostCollective::write_all_reduce(std::size_t round) noexcept {
  const int own = group_.index();
  std::byte* to = slot(own, number(round));
  if (round >= summing_) {
    const Chunk now = host_step(sum_of(own), round - summing_, round_bytes_);
    return put(to, call_.output + now.begin, now.bytes);
  }
  for (int rank = 0; rank < group_.size(); ++rank, to += step_) {
    if (rank == own && combines_own_input()) continue;
    const Chunk now = host_step(sum_of(rank), round, step_);
    contribute(to, call_.input + now.begin, now.bytes);
  }
}

void HostCollective::read_all_reduce(std::size_t round) noexcept {
  const int own = group_.index();
  if (round >= summing_) {
    for (int rank = 0; rank < group_.size(); ++rank) {
      const Chunk now = host_step(sum_of(rank), round - summing_, round_bytes_);
      if (rank != own) take(rank, call_.output + now.begin, slot(rank, number(round)), now.bytes);
    }
    return;
  }
  const Chunk now = host_step(sum_of(own), round, step_);
  combine_all(call_.output + now.begin, now.bytes, [&](int rank) -> const std::byte* {
    if (rank == own && combines_own_input()) return call_.input + now.begin;
    return slot(rank, number(round)) + static_cast<std::size_t>(own) * step_;
  });
}

std::byte* HostCollective::place_of_part(int from, int to, std::uint64_t number) const noexcept {
  const auto part = static_cast<std::size_t>(to);
  const std::size_t bytes = call_.problem.bytes();
  if (bytes * static_cast<std::size_t>(group_.size()) <= kInlineBytes)
    return group_.memory(from).announcements[number % kSlots].bytes + part * bytes;
  return slot(from, number) + part * step_;
}

/// The chunk of each rank's part of the input.
void HostCollective::write_parts(std::uint64_t number, Chunk chunk, bool also_own) noexcept {
  const int own = group_.index();
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (rank == own && !also_own) continue;
    const std::byte* from =
        call_.input + static_cast<std::size_t>(rank) * call_.problem.bytes() + chunk.begin;
    contribute(place_of_part(own, rank, number), from, chunk.bytes);
  }
}

void HostCollective::write(std::size_t round) noexcept {
  const int own = group_.index();
  const bool is_root = own == call_.problem.root;
  const Chunk now = chunk(round, call_.problem.bytes());
  switch (call_.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      if (in_parts_ && call_.collective == Collective::kAllReduce) {
        write_all_reduce(round);
      } else if (in_parts_) {
        write_reduce(round);
      } else {
        if (call_.collective == Collective::kAllReduce || !is_root || !combines_own_input())
          contribute(place(own, number(round)), call_.input + now.begin, now.bytes);
      }
      break;
    case Collective::kReduceScatter:
      write_parts(number(round), now, !combines_own_input());
      break;
    case Collective::kAllToAll:
      write_parts(number(round), now, false);
      break;
    case Collective::kScatter:
      if (is_root) write_parts(number(round), now, false);
      break;
    case Collective::kAllGather:
      put(place(own, number(round)), call_.input + now.begin, now.bytes);
      break;
    case Collective::kBroadcast:
      if (is_root) put(place(own, number(round)), call_.input + now.begin, now.bytes);
      break;
    case Collective::kGather:
      if (!is_root) put(place(own, number(round)), call_.input + now.begin, now.bytes);
      break;
    case Collective::kBarrier:
      break;
  }
}

void HostCollective::take_own(std::size_t round) noexcept {
  const int own = group_.index();
  const auto own_place = static_cast<std::size_t>(own);
  const bool is_root = own == call_.problem.root;
  const std::size_t bytes = call_.problem.bytes();
  const Chunk now = chunk(round, bytes);
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

void HostCollective::read(std::size_t round) noexcept {
  const int own = group_.index();
  const auto own_place = static_cast<std::size_t>(own);
  const bool is_root = own == call_.problem.root;
  const std::size_t bytes = call_.problem.bytes();
  const std::uint64_t at = number(round);
  const Chunk now = chunk(round, bytes);
  switch (call_.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      if (in_parts_ && call_.collective == Collective::kAllReduce) {
        read_all_reduce(round);
      } else if (in_parts_) {
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
