#include "transport/rdma/connection.h"

#include <arpa/inet.h>

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "base/units.h"
#include "transport/rdma/timeouts.h"

namespace tombolo::transport::rdma {
namespace {

constexpr int kBatch = 32;  // completions taken at once
// How long closing waits for the acknowledgement of small messages that count as sent.
constexpr Duration kFlushTime = std::chrono::seconds(2);

/// The payload pairs of a NIC have equal parts of what it declares. Where there is one NIC, there is nothing
/// to learn.
Shares shares_of(const Agreed& agreed) {
  std::vector<double> rates;
  for (std::size_t i = 1; i < agreed.queue_pairs.size(); ++i)
    rates.push_back(agreed.nic_pairs[agreed.queue_pairs[i]->nic_pair]->bytes_per_second());
  return {rates, kPayloadSends, agreed.nic_pairs.size() > 1};
}

}  // namespace

RdmaConnection::RdmaConnection(channel::ControlChannel channel, Agreed agreed)
    : ChannelConnection(std::move(channel), "rdma"),
      agreed_(std::move(agreed)),
      peer_(socket(), channel_.clock) {
  for (const QueuePair* pair : agreed_.queue_pairs) {
    const NicPair& nic_pair = *agreed_.nic_pairs[pair->nic_pair];
    const PortFacts& peer = agreed_.peer_nic_pairs[pair->nic_pair].port;
    StreamMeter& stream = meter_->add_stream(nic_pair.port().facts.nic, peer.nic);
    stream.path_mtu.set(std::uint64_t{128} << std::min(nic_pair.port().facts.mtu, peer.mtu));
    streams_.push_back(&stream);
  }
  shares_ = shares_of(agreed_);
  meter_->decided_streams.set(streams_.size());
  meter_->live_streams.set(streams_.size());
  slot_messages_.fill(kNoMessage);
  free_slots_.reserve(kSlots);
  for (std::uint32_t slot = 0; slot < kSlots; ++slot) free_slots_.push_back(slot);
  constexpr std::uint64_t kMost = 1U << 30;
  longest_ = kMost;
  for (std::size_t i = 0; i < agreed_.nic_pairs.size(); ++i) {
    longest_ = std::min<std::uint64_t>(
        {longest_, agreed_.nic_pairs[i]->port().facts.longest, agreed_.peer_nic_pairs[i].port.longest});
  }
}

RdmaConnection::~RdmaConnection() {
  if (is_copy()) return;
  // This comes first: after it no NIC touches the user's memory.
  end_payload();
  if (!error_ && !closing()) {
    // Small messages count as sent once they are copied, so closing waits until they have reached the other
    // end's memory.
    const TimePoint until = now() + kFlushTime;
    while (free_slots_.size() < kSlots && now() < until) {
      ibv_wc completion{};
      if (ibv_poll_cq(agreed_.nic_pairs[0]->queue(), 1, &completion) <= 0) {
        std::this_thread::yield();
        continue;
      }
      if (completion.status != IBV_WC_SUCCESS) break;
      const WorkId work = WorkId::unpack(completion.wr_id);
      if (work.kind == WorkId::Kind::kSlotSend) free_slots_.push_back(work.slot);
    }
    peer_.say(goodbye_for(GoodbyeReason::kClosed));
  }
  peer_.shut();
}

std::unique_ptr<Memory> RdmaConnection::register_memory(std::span<std::byte> buffer, MemoryKind kind) {
  if (kind == MemoryKind::kCuda) prepare_for_gpu_memory(buffer.size());
  std::vector<std::shared_ptr<Device>> devices;
  for (const auto& nic_pair : agreed_.nic_pairs) devices.push_back(nic_pair->port().device);
  return std::make_unique<RdmaMemory>(std::move(devices), buffer, kind);
}

std::unique_ptr<Memory> RdmaConnection::register_dma_buf(std::span<std::byte> range, int file,
                                                         std::uint64_t offset) {
  prepare_for_gpu_memory(range.size());
  std::vector<std::shared_ptr<Device>> devices;
  for (const auto& nic_pair : agreed_.nic_pairs) devices.push_back(nic_pair->port().device);
  return std::make_unique<RdmaMemory>(std::move(devices), range, file, offset);
}

void RdmaConnection::prepare_for_gpu_memory(std::size_t bytes) {
  if (agreed_.eager_bytes > 0) {
    fail(Cause::kUnsupported,
         "{}: register {} bytes of GPU memory: it carries host memory only while messages of up to {} bytes "
         "are copied by the processor, which cannot reach it; set TOMBOLO_RDMA_EAGER=0 on one end",
         description_, bytes, agreed_.eager_bytes);
  }
  const std::lock_guard guard(gpu_memory_lock_);
  if (flusher_ != nullptr) return;
  flusher_ = std::make_unique<Flusher>(agreed_.nic_pairs, agreed_.options);
  flushes_.store(flusher_.get(), std::memory_order_release);
}

Request* RdmaConnection::post_flush(std::span<const std::byte> data, Memory* memory) noexcept {
  const auto* registered = static_cast<const RdmaMemory*>(memory);
  Flusher* flusher = flushes_.load(std::memory_order_acquire);
  if (registered == nullptr || registered->kind() != MemoryKind::kCuda || data.empty() || error_ ||
      flusher == nullptr)
    return nullptr;
  if (!registered->covers(data.data(), data.size())) {
    fail_with(Cause::kInvalidUsage, "flush a buffer that is not within the memory registered for it");
    return nullptr;
  }
  Request* flush = nullptr;
  guarded([&] {
    flush = flusher->post(data.data() + data.size() - 1, *registered);
    if (flush == nullptr && flusher->problem().empty()) {
      fail_with(Cause::kSystem, "too many flushes are under way");
    } else if (flush == nullptr) {
      fail_path(Cause::kSystem, flusher->problem(), flusher->problem_at());
    }
  });
  return flush;
}

bool RdmaConnection::poll_flushes() {
  Flusher* flusher = flushes_.load(std::memory_order_acquire);
  if (flusher == nullptr || flusher->idle()) return false;
  const bool moved = flusher->poll();
  if (!flusher->problem().empty()) fail_path(Cause::kSystem, flusher->problem(), flusher->problem_at());
  return moved;
}

bool RdmaConnection::advance_one_sided() {
  const bool moved = one_sided_.advance();
  if (!one_sided_.problem().empty()) fail_path(Cause::kSystem, one_sided_.problem(), one_sided_.problem_at());
  return moved;
}

Outcome RdmaConnection::test(Request* base, std::size_t& bytes) noexcept {
  if (Flusher* flusher = flushes_.load(std::memory_order_acquire);
      flusher != nullptr && flusher->owns(base)) {
    progress();
    bytes = 0;
    return flusher->test(base, error_.has_value());
  }
  auto* request = static_cast<PostedRequest*>(base);
  if (request->state != PostedRequest::State::kDone && !error_) progress();
  // A NIC may have carried out what nobody has looked at yet.
  const bool open = path_failed_ && fence_ != Fence::kFenced;
  if (open && request->state != PostedRequest::State::kDone) return Outcome::kPending;
  return outcome_of(*request, bytes);
}

bool RdmaConnection::progress() noexcept {
  if (error_) return false;
  bool moved = true;
  guarded([&] { moved = advance(); });
  return moved;
}

bool RdmaConnection::advance() {
  if (wake_up()) {
    for (auto& nic_pair : agreed_.nic_pairs) nic_pair->disarm();
    look_at_devices();
    look_at_channel();
    if (error_) return true;
  }
  bool moved = poll_all();
  if (!error_) moved |= poll_flushes();
  if (!error_) moved |= advance_one_sided();
  if (!error_ && told_ < incoming_.posted()) moved |= tell_receives();
  if (!error_ && next_ < outgoing_.posted()) moved |= send_all();
  if (!error_) moved |= report();
  if (error_) return true;
  if (closing()) {
    close_when_drained();
  } else if (count_turn(moved)) {
    look_at_devices();
    look_at_channel();
    if (error_) return moved;
    if (const std::string why = stalled(); !why.empty()) fail_with(Cause::kTimeout, why);
  }
  return moved;
}

bool RdmaConnection::poll_all() {
  bool moved = !early_.empty();
  // What is left when the connection fails is for fence().
  std::size_t looked_at = 0;
  while (looked_at < early_.size() && !error_) handle(early_[looked_at++]);
  early_.erase(early_.begin(), early_.begin() + static_cast<std::ptrdiff_t>(looked_at));
  for (std::size_t i = 0; i < agreed_.nic_pairs.size() && !error_; ++i) {
    std::array<ibv_wc, kBatch> completions;
    early_.reserve(early_.size() + kBatch);  // what is taken is lost where it cannot be kept
    const int count = ibv_poll_cq(agreed_.nic_pairs[i]->queue(), kBatch, completions.data());
    if (count < 0) {
      fail_path(Cause::kSystem,
                fmt::format("RDMA device {} refuses to tell its completions",
                            agreed_.nic_pairs[i]->device().name()),
                i);
      return true;
    }
    moved |= count > 0;
    for (int at = 0; at < count; ++at) {
      const ibv_wc& one = completions[static_cast<std::size_t>(at)];
      if (!error_)
        handle(one);
      else if (path_failed_)
        early_.push_back(one);
    }
  }
  if (shares_.waiting()) shares_.looked(now());
  return moved;
}

void RdmaConnection::handle(const ibv_wc& completion) {
  const WorkId work = WorkId::unpack(completion.wr_id);
  if (agreed_.queue_pairs[work.queue_pair]->pair == nullptr) return;  // left over from a destroyed one
  if (completion.status != IBV_WC_SUCCESS) return broken(completion);
  switch (work.kind) {
    case WorkId::Kind::kSlotSend:
      slot_sent(work.slot);
      break;
    case WorkId::Kind::kPiece:
      agreed_.queue_pairs[work.queue_pair]->send_room += work.requests;
      shares_.done(work.queue_pair - std::size_t{1});
      piece_done(work.slot);
      break;
    case WorkId::Kind::kOneSided:
      agreed_.queue_pairs[work.queue_pair]->send_room += work.requests;
      shares_.done(work.queue_pair - std::size_t{1});
      one_sided_.piece_done(work.slot);
      break;
    case WorkId::Kind::kSlotReceive:
      if (completion.opcode != IBV_WC_RECV) return malformed("immediate data where a record was due");
      slot_arrived(work.slot, completion.byte_len);
      break;
    case WorkId::Kind::kEmptyReceive:
      if (completion.opcode != IBV_WC_RECV_RDMA_WITH_IMM) return malformed("a record where a part was due");
      part_arrived(work.queue_pair, ntohl(completion.imm_data), completion.byte_len);
      break;
    case WorkId::Kind::kTest:
      break;
  }
}

void RdmaConnection::look_at_channel() {
  if (const std::string nonsense = peer_.look(); !nonsense.empty()) malformed(nonsense);
}

/// Closes once everything that the peer sent before its end has been delivered.
void RdmaConnection::close_when_drained() {
  const auto& goodbye = peer_.goodbye();
  if (goodbye && goodbye->reason == GoodbyeReason::kPathFailed) {
    failed_pairs_ |= goodbye->pairs;
    return leave_path(Cause::kRemote, peer_.ending());
  }
  if (!goodbye) {
    // A process that died sends no counts, so nothing can come but what is in the completion queues.
    while (!error_ && poll_all()) {
    }
  } else if (goodbye->reason == GoodbyeReason::kClosed &&
             (small_received_ < goodbye->sent || large_received_ < goodbye->written) && peer_.patient()) {
    return;
  }
  if (error_) return;
  if (goodbye) finish_received(goodbye->received);
  // Stays open for small messages that have arrived and lack a receive, while no other operation waits for
  // the peer.
  if (held_count_ > 0 && outgoing_.empty() && incoming_.empty()) return;
  fail_with(Cause::kRemote, peer_.ending());
}

/// Completes what the peer has in its receives by its own count, even where the last acknowledgement was lost
/// with the peer's queue pairs.
void RdmaConnection::finish_received(std::uint64_t end) noexcept {
  if (outgoing_.empty() || outgoing_.oldest() >= std::min(end, next_)) return;
  end_payload();
  for (std::uint64_t sequence = outgoing_.oldest(); sequence < std::min(end, next_); ++sequence)
    if (PostedRequest* request = outgoing_.find(sequence)) finish_send(sequence, *request);
}

Goodbye RdmaConnection::goodbye_for(GoodbyeReason reason, std::uint64_t size,
                                    std::uint64_t capacity) const noexcept {
  return {reason, small_sent_, large_sent_, incoming_.oldest(), size, capacity, {}};
}

void RdmaConnection::fail_too_large(std::uint64_t sequence, std::uint64_t size, std::uint64_t capacity) {
  fail_with(Cause::kRemote,
            fmt::format("message {} has {} bytes, but the receive posted for it takes {} bytes", sequence,
                        size, capacity),
            goodbye_for(GoodbyeReason::kTooLarge, size, capacity));
}

void RdmaConnection::fail_with(Cause cause, std::string_view what) noexcept {
  Goodbye goodbye = goodbye_for(GoodbyeReason::kFailed);
  goodbye.say(what);
  fail_with(cause, what, goodbye);
}

void RdmaConnection::fail_with(Cause cause, std::string_view what, const Goodbye& goodbye) noexcept {
  if (error_) return;
  set_error(cause, what);
  meter_->live_streams.set(0);
  // This comes before any request is reported as failed, because after that its owner may reuse the buffer.
  // Whoever carries the messages on calls fence() before that.
  if (!path_failed_) end_payload();
  if (!closing()) peer_.say(goodbye);
  peer_.shut();
}

/// Ends every access of the NICs to the user's memory, and gives back what was registered for single
/// operations.
void RdmaConnection::end_payload() noexcept {
  for (std::size_t i = 1; i < agreed_.queue_pairs.size(); ++i) {
    QueuePair& pair = *agreed_.queue_pairs[i];
    agreed_.nic_pairs[pair.nic_pair]->destroy(pair);
  }
  one_sided_.end();
  if (Flusher* flusher = flushes_.load(std::memory_order_acquire)) flusher->stop();
  for (Outgoing& out : sending_) deregister(out.own);
  for (Incoming& in : receiving_) deregister(in.own);
}

/// Registers a buffer that the user did not register, for this operation only. A registration that is kept
/// for later could reach memory that was unmapped meanwhile.
bool RdmaConnection::register_for(const std::byte* data, std::size_t size, const RdmaMemory* memory,
                                  Access access, Registrations& own) {
  try {
    if (memory != nullptr) {
      if (memory->covers(data, size)) return true;
      fail(Cause::kInvalidUsage, "{} bytes at {} are not within the memory registered for them", size,
           static_cast<const void*>(data));
    }
    const std::span range(const_cast<std::byte*>(data), size);
    for (std::size_t i = 0; i < agreed_.nic_pairs.size(); ++i)
      own[i] = agreed_.nic_pairs[i]->device().add(range, access);
    return true;
  } catch (const Error& error) {
    deregister(own);
    fail_with(error.cause(), error.what());
    return false;
  }
}

void RdmaConnection::deregister(Registrations& own) noexcept {
  for (std::size_t i = 0; i < agreed_.nic_pairs.size(); ++i) {
    if (own[i] != nullptr) agreed_.nic_pairs[i]->device().remove(own[i]);
    own[i] = nullptr;
  }
}

void RdmaConnection::append_wait_handles(std::vector<pollfd>& handles) const {
  fall_asleep();
  bool look_again = error_.has_value() || closing();
  if (!look_again) {
    for (const auto& nic_pair : agreed_.nic_pairs) {
      nic_pair->arm();
      // A completion that came before the queue was armed raises no event. There is room before it is taken.
      std::array<ibv_wc, kBatch> completions;
      early_.reserve(early_.size() + kBatch);
      const int count = ibv_poll_cq(nic_pair->queue(), kBatch, completions.data());
      for (int i = 0; i < count; ++i) early_.push_back(completions[static_cast<std::size_t>(i)]);
      handles.push_back({nic_pair->descriptor(), POLLIN, 0});
      handles.push_back({nic_pair->device().events(), POLLIN, 0});
    }
    const Flusher* flusher = flushes_.load(std::memory_order_acquire);
    look_again = !early_.empty() || (flusher != nullptr && !flusher->idle());
  }
  handles.push_back(channel_handle(look_again));
}

}  // namespace tombolo::transport::rdma
