#include "collectives/host/buffer_reader.h"

#include <algorithm>
#include <cstring>

namespace tombolo::collectives {

namespace {

/// From here on a part of an exchange between two ranks is read straight: a system call that reads another
/// process's memory takes 1.5 us, and announcing twice some more. Of 16, 32, 64 and 128 KiB tried with two,
/// four and eight ranks on two processors (Intel Xeon, family 6, model 207), slots took as long at 32 KiB and
/// 1.2 to 1.6 times as long at 64 KiB.
constexpr std::size_t kLeastOfExchange = std::size_t{64} << 10;
/// The same among more ranks: with four and eight on two processors (AMD EPYC, family 25, model 17) slots
/// took 0.4 to 0.9 of the time for parts of 64 to 256 KiB. From 512 KiB on they took as long with four, and
/// 1.8 times as long with eight, who wait for each other in every round.
constexpr std::size_t kLeastAmongMany = std::size_t{512} << 10;
/// A broadcast waits for its root's copy into the slot, and only one of its two ranks reads: there reading
/// straight was the faster way from 16 KiB on, on another processor (AMD EPYC, family 25, model 17) only
/// above that (2.7 us through slots, 3.5 straight).
constexpr std::size_t kLeastOfBroadcast = std::size_t{32} << 10;

}  // namespace

/// What more than one rank reads costs less in slots: these stay in a cache, and the copy into them is made
/// once for all. So do gathers and scatters, where one rank has a part in every copy and the others share its
/// work by theirs.
bool BufferReader::suits(Collective collective, std::size_t bytes, int ranks) noexcept {
  switch (collective) {
    case Collective::kAllToAll:
      return bytes >= (ranks == 2 ? kLeastOfExchange : kLeastAmongMany);
    case Collective::kAllGather:
      return ranks == 2 && bytes >= kLeastOfExchange;
    case Collective::kAllReduce:  // of which each rank gets the sums of the other
      return ranks == 2 && bytes >= 2 * kLeastOfExchange;
    case Collective::kBroadcast:
      return ranks == 2 && bytes >= kLeastOfBroadcast;
    default:
      return false;
  }
}

/// The kernel reads each line of the destination before it overwrites it. With two ranks on two processors
/// (AMD EPYC, family 25, model 17, 32 MiB) slots took 0.7 to 0.9 of the time for 16 and 64 MiB; with four 0.9
/// to 1.2 for all-to-alls of 16 MiB, 0.8 for 64; and with eight 1.6, where all wait for each other in every
/// round.
bool BufferReader::is_slower_than_streams(int ranks, std::size_t times) noexcept {
  constexpr std::size_t kTimesOfFour = 4;
  return ranks == 2 || (ranks <= 4 && times >= kTimesOfFour);
}

void BufferReader::announce(std::byte* announcement) const noexcept {
  const bool gives_sums = call_.collective == Collective::kAllReduce;
  const auto address = reinterpret_cast<std::uint64_t>(gives_sums ? call_.output : call_.input);
  std::memcpy(announcement, &address, sizeof(address));
}

void BufferReader::start(const HostCall& call) noexcept {
  call_ = call;
  unread_ = gone_ = 0;
  copied_ = 0;
  failed_ = false;
  // Its own bytes need no wait. Then each rank begins with another one, so that not all read the same buffer.
  source_ = group_->index();
  for (int rank = 0; rank < group_->size(); ++rank)
    if (gets_from(rank)) unread_ |= std::uint64_t{1} << rank;
}

bool BufferReader::gets_from(int source) const noexcept {
  switch (call_.collective) {
    case Collective::kBroadcast:
      return source == call_.problem.root;
    case Collective::kAllReduce:
      return source != group_->index() && bytes_of(source).bytes > 0;
    default:
      return true;
  }
}

Chunk BufferReader::bytes_of(int source) const noexcept {
  const std::size_t bytes = call_.problem.bytes();
  switch (call_.collective) {
    case Collective::kAllToAll:
      return {static_cast<std::size_t>(group_->index()) * bytes, bytes};
    case Collective::kAllReduce:
      return host_part({0, bytes}, source, group_->size());
    default:
      return {0, bytes};
  }
}

std::byte* BufferReader::destination(int source) const noexcept {
  if (call_.collective == Collective::kBroadcast) return call_.output;
  if (call_.collective == Collective::kAllReduce) return call_.output + bytes_of(source).begin;
  return call_.output + static_cast<std::size_t>(source) * call_.problem.bytes();
}

bool BufferReader::read(std::uint64_t ready, std::uint64_t number) noexcept {
  ready &= unread_ & ~gone_;
  if (ready == 0 || failed_) return false;
  if (copied_ == 0 || (ready >> source_ & 1) == 0) {
    copied_ = 0;
    while ((ready >> source_ & 1) == 0) source_ = (source_ + 1) % group_->size();
  }
  return read_from(source_, number);
}

bool BufferReader::read_from(int source, std::uint64_t number) noexcept {
  using Outcome = transport::shm::PeerMemory::Outcome;
  const Chunk whole = bytes_of(source);
  const std::size_t length = std::min(kTurn, whole.bytes - copied_);
  std::byte* to = destination(source) + copied_;
  if (source == group_->index()) {
    const std::byte* from = call_.input + whole.begin + copied_;
    if (to != from) std::memcpy(to, from, length);
  } else {
    std::uint64_t address = 0;
    std::memcpy(&address, group_->memory(source).announcements[number % kSlots].bytes, sizeof(address));
    switch (group_->read_buffer(source, {to, length}, address + whole.begin + copied_)) {
      case Outcome::kRead:
        break;
      case Outcome::kNotThePeer:
        if (group_->has_withdrawn(source)) {
          gone_ |= std::uint64_t{1} << source;
          return false;
        }
        // It has died, and what it owes says so; or only its first thread has ended.
        [[fallthrough]];
      case Outcome::kForbidden:
      case Outcome::kUnreadable:
        failed_ = true;
        unread_ = 0;
        return true;
    }
    group_->count_copied(length);
  }
  copied_ += length;
  if (copied_ == whole.bytes) {
    copied_ = 0;
    unread_ &= ~(std::uint64_t{1} << source);
  }
  return true;
}

}  // namespace tombolo::collectives
