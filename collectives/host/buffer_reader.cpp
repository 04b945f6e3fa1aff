#include "collectives/host/buffer_reader.h"

#include <algorithm>
#include <cstring>

namespace tombolo::collectives {

namespace {

/// From here on a part of an exchange between two ranks is read straight: a system call that reads another
/// process's memory takes 1.5 us, and announcing twice some more. Of 16, 32, 64 and 128 KiB tried with two,
/// four and eight ranks on two processors (Intel Xeon, family 6, model 207), slots took as long at 32 KiB and
/// 1.2 to 1.6 times as long at 64 KiB.
constexpr std::size_t kLeastOfExchange = std::size_t{32} << 10;
/// Of an all-reduce between two ranks: the sums come by themselves, and only half of the bytes are read. On
/// two processors (Intel Xeon, family 6, model 167) one of 64 KiB took 8 us through slots, and 13 straight.
constexpr std::size_t kLeastOfSums = std::size_t{128} << 10;
/// Where one of two ranks gives all, the other one waits for its copy into the slot, and only that one reads:
/// there reading straight was the faster way from 8 KiB on (Intel Xeon, family 6, model 167), on another
/// processor (AMD EPYC, family 25, model 17) only above 16 KiB (2.7 us through slots, 3.5 straight).
constexpr std::size_t kLeastOfOneWay = std::size_t{8} << 10;
/// So many bytes of another rank are read before they are combined: they stay in a second-level cache.
constexpr std::size_t kOperandBytes = std::size_t{64} << 10;
static_assert(kOperandBytes <= kSlotBytes);

/// Products lie in no buffer. Only in a reduce may one rank multiply what the other one does not.
bool multiplies(const HostCall& call) noexcept {
  return call.collective == Collective::kReduce && call.problem.premultiplied;
}

}  // namespace

/// What more than one rank reads costs less in slots: these stay in a cache, and the copy into them is made
/// once for all. So do gathers and reduces of more than two ranks, where the root has a part in every copy
/// and the others share its work by theirs. In a scatter its readers do that work themselves.
bool BufferReader::suits(Collective collective, std::size_t bytes, int ranks) noexcept {
  switch (collective) {
    case Collective::kAllToAll:
      return bytes >= kLeastOfExchange;
    case Collective::kAllGather:
      return ranks == 2 && bytes >= kLeastOfExchange;
    case Collective::kAllReduce:  // of which each rank gets the sums of the other
      return ranks == 2 && bytes >= kLeastOfSums;
    case Collective::kScatter:
      return bytes >= (ranks == 2 ? kLeastOfOneWay : kLeastOfExchange);
    case Collective::kBroadcast:
    case Collective::kGather:
    case Collective::kReduce:
      return ranks == 2 && bytes >= kLeastOfOneWay;
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
  auto address = reinterpret_cast<std::uint64_t>(gives_sums ? call_.output : call_.input);
  if (multiplies(call_)) address = 0;
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
  if (unread_ != 0 && multiplies(call)) fail();
}

bool BufferReader::gets_from(int source) const noexcept {
  switch (call_.collective) {
    case Collective::kBroadcast:
    case Collective::kScatter:
      return source == call_.problem.root;
    case Collective::kGather:
      return group_->index() == call_.problem.root;
    case Collective::kReduce:  // its own values are operands where they lie
      return group_->index() == call_.problem.root && source != call_.problem.root;
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
    case Collective::kScatter:
      return {static_cast<std::size_t>(group_->index()) * bytes, bytes};
    case Collective::kAllReduce:
      return host_part({0, bytes}, source, group_->size());
    default:
      return {0, bytes};
  }
}

std::byte* BufferReader::destination(int source) const noexcept {
  switch (call_.collective) {
    case Collective::kBroadcast:
    case Collective::kScatter:
      return call_.output;
    case Collective::kAllReduce:
      return call_.output + bytes_of(source).begin;
    default:
      return call_.output + static_cast<std::size_t>(source) * call_.problem.bytes();
  }
}

std::size_t BufferReader::longest_read() const noexcept {
  return call_.collective == Collective::kReduce ? kOperandBytes : kTurn;
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
  const Chunk whole = bytes_of(source);
  const std::size_t until = std::min(whole.bytes, copied_ + kTurn);
  if (source == group_->index()) {
    const std::byte* from = call_.input + whole.begin + copied_;
    std::byte* const to = destination(source) + copied_;
    if (to != from) std::memcpy(to, from, until - copied_);
    copied_ = until;
  } else {
    std::uint64_t address = 0;
    std::memcpy(&address, group_->memory(source).announcements[number % kSlots].bytes, sizeof(address));
    while (copied_ < until) {
      const std::size_t length = std::min(until - copied_, longest_read());
      if (!copy(source, {whole.begin + copied_, length}, address)) return failed_;
      copied_ += length;
    }
  }
  if (copied_ == whole.bytes) {
    copied_ = 0;
    unread_ &= ~(std::uint64_t{1} << source);
  }
  return true;
}

/// Copies bytes of the buffer at `address` of another rank, or combines them; false where they cannot be
/// read.
bool BufferReader::copy(int source, Chunk bytes, std::uint64_t address) noexcept {
  using Outcome = transport::shm::PeerMemory::Outcome;
  const bool combines = call_.collective == Collective::kReduce;
  std::byte* const to = combines ? operand() : destination(source) + copied_;
  switch (group_->read_buffer(source, {to, bytes.bytes}, address + bytes.begin, *clock_)) {
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
      fail();
      return false;
  }
  group_->count_copied(bytes.bytes);
  if (combines) combine_operand(bytes);
  return true;
}

/// In the order of the two ranks.
void BufferReader::combine_operand(Chunk bytes) noexcept {
  const std::size_t count = bytes.bytes / call_.problem.element_bytes;
  const std::byte* const own = call_.input + bytes.begin;
  const bool first = group_->index() == 0;
  std::byte* const output = call_.output + bytes.begin;
  combine(output, first ? own : operand(), first ? operand() : own, count, call_.type, call_.op);
  if (call_.problem.average) divide(output, count, call_.type, static_cast<std::size_t>(group_->size()));
}

}  // namespace tombolo::collectives
