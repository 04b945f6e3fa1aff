// The end of a connection whose messages go on over another one: nothing that its NICs received is lost, and
// nothing is written to a receive afterwards.
#include <array>
#include <chrono>

#include "base/error.h"
#include "transport/rdma/connection.h"

namespace tombolo::transport::rdma {
namespace {

constexpr int kDrainBatch = 32;
// A device that is gone flushes nothing.
constexpr auto kDrainTime = std::chrono::seconds(1);

}  // namespace

std::vector<Resumable::PairOfNics> RdmaConnection::nic_pairs() const {
  std::vector<Resumable::PairOfNics> pairs;
  for (std::size_t i = 0; i < agreed_.nic_pairs.size(); ++i) {
    // The accepting end connects by no address.
    const bool known = i < agreed_.peer_addresses.size();
    pairs.push_back({agreed_.nic_pairs[i]->port().facts.nic,
                     known ? agreed_.peer_addresses[i] : std::string(), failed(i)});
  }
  return pairs;
}

bool RdmaConnection::failed(std::size_t nic_pair) const noexcept {
  const Port& port = agreed_.nic_pairs[nic_pair]->port();
  return failed_pairs_[nic_pair] || port.device->lost() || port.device->down(port.number);
}

void RdmaConnection::fail_path(Cause cause, std::string_view what, std::size_t nic_pair) noexcept {
  if (!error_) failed_pairs_.set(nic_pair);
  leave_path(cause, what);
}

/// The way has failed, or is left for a better one. Where both ends have agreed on that, the messages go on
/// over another one: then all that the NICs have is still wanted, and the queue pairs stay until fence().
/// What is in GPU memory cannot go over any other, unless the owner takes care of that.
void RdmaConnection::leave_path(Cause cause, std::string_view what) noexcept {
  if (error_) return;
  const bool gpu_memory = flushes_.load(std::memory_order_acquire) != nullptr;
  path_failed_ = route().resumable && (!gpu_memory || gpu_memory_moves_);
  Goodbye goodbye = goodbye_for(path_failed_ ? GoodbyeReason::kPathFailed : GoodbyeReason::kFailed);
  for (std::size_t i = 0; path_failed_ && i < agreed_.nic_pairs.size(); ++i) goodbye.pairs[i] = failed(i);
  goodbye.say(what);
  fail_with(cause, what, goodbye);
}

void RdmaConnection::peer_says_failed(std::uint64_t pairs) noexcept {
  failed_pairs_ |= std::bitset<Goodbye::kMostPairs>(pairs);
}

std::optional<Error> RdmaConnection::fence(const Take& early, const Take& /*unsure*/) noexcept {
  std::optional<Error> missing;
  if (fence_ != Fence::kOpen) return missing;
  leave_path(Cause::kAborted, "its messages go on over another way");
  // The connection's own error is that of its way.
  const auto noting = [&](const auto& work) noexcept {
    transport::guarded(work, [&](Cause cause, std::string_view what) noexcept {
      if (!missing)
        missing = texts_.error(cause, {description_, ": what its NICs had received cannot be taken: ", what});
    });
  };
  fence_ = Fence::kDraining;
  noting([&] { drain(); });
  fence_ = Fence::kFenced;
  end_payload();
  agreed_.nic_pairs[0]->destroy(control());
  noting([&] {
    // In order: the slots of those without a receive follow one another.
    for (std::uint64_t sequence = incoming_.posted(); sequence < incoming_.posted() + kEagerSlots;
         ++sequence) {
      const Held& held = held_[sequence % kEagerSlots];
      if (held.sequence != sequence) continue;
      const Slot& slot = agreed_.areas->closed.received[held.slot];
      early(sequence, std::span(slot).subspan(kHeaderBytes, static_cast<std::size_t>(held.size)));
    }
  });
  return missing;
}

/// Stops the queue pairs, and takes all completions up to the first flushed receive of each: those before it
/// are all that its NIC has received. Time is the machine's own here, since the NIC goes by no other. Throws
/// where completions cannot be had: one that is gone and says nothing is no such error, since its peer tells
/// of what it acknowledged and did not deliver.
void RdmaConnection::drain() {
  std::array<bool, kMostQueuePairs> flushed{};
  std::size_t left = 0;
  for (std::size_t i = 0; i < agreed_.queue_pairs.size(); ++i) {
    QueuePair& pair = *agreed_.queue_pairs[i];
    flushed[i] = !agreed_.nic_pairs[pair.nic_pair]->stop(pair);
    left += flushed[i] ? 0 : 1;
  }
  const auto take = [&](const ibv_wc& completion) {
    const std::size_t pair = WorkId::unpack(completion.wr_id).queue_pair;
    if (!note_drained(completion) || flushed[pair]) return;
    flushed[pair] = true;
    --left;
  };
  for (const ibv_wc& one : early_) take(one);
  early_.clear();
  const auto until = std::chrono::steady_clock::now() + kDrainTime;
  while (left > 0 && std::chrono::steady_clock::now() < until) {
    for (const auto& nic_pair : agreed_.nic_pairs) {
      std::array<ibv_wc, kDrainBatch> completions;
      const int count = ibv_poll_cq(nic_pair->queue(), kDrainBatch, completions.data());
      for (int i = 0; i < count; ++i) take(completions[static_cast<std::size_t>(i)]);
      if (count < 0)
        fail(Cause::kSystem, "RDMA device {} refuses to tell its completions", nic_pair->device().name());
    }
  }
}

/// Handles what was carried out. True for a receive that was flushed.
bool RdmaConnection::note_drained(const ibv_wc& completion) {
  const WorkId work = WorkId::unpack(completion.wr_id);
  if (agreed_.queue_pairs[work.queue_pair]->pair == nullptr) return false;
  const bool receive = work.kind == WorkId::Kind::kSlotReceive || work.kind == WorkId::Kind::kEmptyReceive;
  if (completion.status != IBV_WC_SUCCESS) return receive;
  handle(completion);
  return false;
}

}  // namespace tombolo::transport::rdma
