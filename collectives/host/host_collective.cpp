#include "collectives/host/host_collective.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tombolo::collectives {
namespace {

/// Rounds of one call of progress() at most, whatever the others do meanwhile: its thread has other things to
/// do.
constexpr int kRoundsAtOnce = 8;

constexpr std::uint64_t kHashFactor = 0x100000001b3, kFromBuffersFact = std::uint64_t{1} << 32;
/// In the place of a count, which no call can have.
constexpr std::uint64_t kUneven = ~std::uint64_t{0};

/// A hash of what all ranks must agree on: of parts that differ those that all ranks know. Where they are in
/// its buffer is each rank's own affair.
std::uint64_t facts_of(const HostCall& call) noexcept {
  const std::uint64_t facts[] = {static_cast<std::uint64_t>(call.collective),
                                 call.problem.uneven ? kUneven : call.problem.count,
                                 call.problem.element_bytes,
                                 static_cast<std::uint64_t>(call.problem.root),
                                 static_cast<std::uint64_t>(call.op),
                                 call.problem.average};
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a's, by words
  for (const std::uint64_t fact : facts) hash = (hash ^ fact) * kHashFactor;
  if (!call.problem.uneven || call.has_unknown_parts()) return hash;
  for (const std::size_t count : call.problem.parts->counts) hash = (hash ^ count) * kHashFactor;
  return hash;
}

/// Of calls with parts that differ not known here.
bool same_facts(const HostCall& a, const HostCall& b) noexcept {
  if (a.problem.uneven || b.problem.uneven) return false;
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

void HostCollective::start(const HostCall& call) noexcept {
  const bool again = facts_ != 0 && same_facts(call, call_);
  call_ = call;
  first_ += rounds_;
  round_ = 0;
  announced_ = false;
  looked_ = 0;
  if (!again) facts_ = facts_of(call);
  if (!again || !settled_) prepare();
  hash_ = hash_after(hash_, facts_ ^ (way_.from_buffers() ? kFromBuffersFact : 0));
}

void HostCollective::prepare() noexcept {
  plan_ = SlotPlan(call_, group_.size(), group_.caches());
  way_.begin(call_, plan_.copied, plan_.streams);
  settled_ = way_.is_settled();
  if (way_.from_buffers()) reader_.start(call_);
  rounds_ = way_.from_buffers() ? plan_.summing + 2 : plan_.rounds;
  if (plan_.open) rounds_ = 1;  // or more, as the first one says
  prepare_needed();
  prefetches_ = group_.size() == 2 && !way_.from_buffers() && !plan_.beside;
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
  round_ = 0;
  plan_.only_spread(slots().sum_of(0).bytes);
  rounds_ = plan_.rounds;
}

/// In place the root has no input any more of what it has combined.
void HostCollective::skip_combined(std::uint64_t number) noexcept {
  const std::byte* said = group_.memory(call_.problem.root).announcements[number % kSlots].bytes;
  std::uint64_t combined = 0;
  std::memcpy(&combined, said + sizeof(combined), sizeof(combined));
  settled_ = false;  // the next call has all rounds
  plan_.skip(combined, call_.problem.bytes());
  (group_.index() == call_.problem.root ? traffic_.read : traffic_.written) += plan_.done;
  rounds_ = plan_.rounds;
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
      if (group_.index() == root) break;
      first_needed_ = root;
      after_needed_ = plan_.open ? root + 1 : 0;
      break;
    case Collective::kReduce:
      if (!plan_.in_parts && group_.index() != root) after_needed_ = 0;
      break;
    default:
      break;
  }
}

bool HostCollective::owes(int rank) const noexcept {
  if (finished() || rank == group_.index()) return false;
  if (way_.from_buffers() && round_ == plan_.summing && reader_.awaits(rank)) return true;
  const std::uint64_t last = number(rounds_ - 1);
  // The slot of the last round is free once everyone has announced the round that all_announced() asks for.
  return !group_.has_announced(rank, needs(rank) ? last : last - std::min(last, plan_.depth - 1));
}

bool HostCollective::has_announced(int rank, std::uint64_t number) noexcept {
  std::uint64_t& seen = seen_[static_cast<std::size_t>(rank)];
  if (seen >= number) return true;
  // Whoever keeps up has announced the newest round, too; then the next calls need not look. A root looks at
  // nothing else of the others, and each look brings a line from another processor.
  seen = std::max(seen, group_.announced(rank, number + plan_.depth - 2));
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
      if (now >= plan_.depth && !all_announced(now - plan_.depth + 1)) return moved;
      Announcement& own = group_.own().announcements[now % kSlots];
      own.call = hash_;
      way_.announce(own);
      if (round_ == 0) way_.writes_first_round();
      write_round(now);
      group_.announce(now);
      if (!way_.from_buffers()) slots().take_own(round_);
      if (round_ == 0) way_.has_written_first_round();
      announced_ = true;
      moved = true;
    }
    const bool read = read_round(now, moved);
    if (prefetches_ && (!read || round_ + 1 == rounds_)) prefetch_next();
    if (!read) return moved;
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

void HostCollective::prefetch_next() noexcept {
  if (prefetched_ > number(round_)) return;
  slots().prefetch_next(round_);
  prefetched_ = number(round_ + 1);
}

void HostCollective::write_round(std::uint64_t number) noexcept {
  if (!way_.from_buffers() || round_ < plan_.summing) return slots().write(round_);
  std::byte* announcement = group_.own().announcements[number % kSlots].bytes;
  if (round_ == plan_.summing) {
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
      traffic_.written += others * bytes;
      traffic_.read += others * bytes;
      break;
    case Collective::kAllGather:
      traffic_.written += bytes;
      traffic_.read += others * bytes;
      break;
    case Collective::kAllReduce: {
      const std::uint64_t own = slots().sum_of(group_.index()).bytes;
      traffic_.written += own;
      traffic_.read += bytes - own;
      break;
    }
    case Collective::kGather:
    case Collective::kReduce:
      if (is_root)
        traffic_.read += others * bytes;
      else
        traffic_.written += bytes;
      break;
    case Collective::kScatter:
      if (is_root)
        traffic_.written += others * bytes;
      else
        traffic_.read += bytes;
      break;
    default:  // a broadcast
      (is_root ? traffic_.written : traffic_.read) += bytes;
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
  if (way_.from_buffers() && round_ == plan_.summing) return read_buffers(number, moved);
  if (!needed_announced(number)) return false;
  if (plan_.open && round_ == 0 && !hear_of_parts()) return false;
  if (!way_.from_buffers() || round_ < plan_.summing) slots().read(round_);
  return true;
}

bool HostCollective::hear_of_parts() noexcept {
  wrong_part_ = slots().wrong_part();
  if (wrong_part_) {
    mismatch_ = wrong_part_->rank;
    return false;
  }
  rounds_ = slots().rounds_said();
  // Who only gives to a gather has heard what it needs.
  if (call_.collective == Collective::kGather && group_.index() != call_.problem.root) after_needed_ = 0;
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

}  // namespace tombolo::collectives
