// The receiving half of a connection. Everything that came over the wire is checked before it is used.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/error.h"
#include "transport/rdma/connection.h"

namespace tombolo::transport::rdma {

Request* RdmaConnection::post_receive(std::span<std::byte> buffer, Memory* memory) noexcept {
  PostedRequest* request = new_receive(buffer);
  if (request == nullptr || error_) return request;
  const std::uint64_t sequence = incoming_.posted();
  Incoming& in = receiving_[sequence % kWindow];
  in = Incoming{};
  in.memory = static_cast<RdmaMemory*>(memory);
  incoming_.push(request);
  guarded([&] { begin_receive(sequence, *request); });
  return request;
}

/// Takes what has come for a receive that is posted now, or tells the sender of it.
void RdmaConnection::begin_receive(std::uint64_t sequence, PostedRequest& request) {
  Incoming& in = receiving_[sequence % kWindow];
  if (Held& held = held_[sequence % kEagerSlots]; held.sequence == sequence) {
    held.sequence = UINT64_MAX;
    --held_count_;
    deliver(sequence, request, held.slot, held.size);
    return;
  }
  if (large_sequence_ == sequence && large_size_ > request.size) {
    fail_too_large(sequence, large_size_, request.size);
    return;
  }
  // The sender need not be told of a receive into which no large message fits.
  if (request.size <= agreed_.eager_bytes) return;
  if (!register_for(request.data, request.size, in.memory, Access::kByPeer, in.own)) return;
  in.to_tell = true;
  tell_receives();
}

/// Tells the sender of receives, in order and as many as fit into one slot.
bool RdmaConnection::tell_receives() {
  bool moved = false;
  while (!error_ && !closing() && told_ < incoming_.posted()) {
    told_ = std::max(told_, incoming_.oldest());
    std::array<std::byte, kMostAdverts * Advert::kBytes> payload;
    std::uint8_t count = 0;
    std::uint64_t at = told_;
    for (; at < incoming_.posted() && count < kMostAdverts; ++at) {
      const PostedRequest* request = incoming_.find(at);
      const Incoming& in = receiving_[at % kWindow];
      if (request == nullptr || !in.to_tell) continue;
      Advert advert;
      advert.sequence = at;
      advert.address = reinterpret_cast<std::uint64_t>(request->data);
      advert.capacity = request->size;
      const Registrations& keys = registrations_of(in.memory, in.own);
      for (std::size_t nic_pair = 0; nic_pair < agreed_.nic_pairs.size(); ++nic_pair)
        advert.keys[nic_pair] = keys[nic_pair]->rkey;
      advert.write(std::span(payload).subspan(count * Advert::kBytes).first<Advert::kBytes>());
      ++count;
    }
    if (count > 0) {
      if (!may_say(false)) break;
      Header header;
      header.type = Header::Type::kReceives;
      header.count = count;
      if (!post_slot(header, std::span(payload).first(count * Advert::kBytes))) break;
      ++words_.sent;
      moved = true;
      for (std::uint64_t one = told_; one < at; ++one) {
        Incoming& in = receiving_[one % kWindow];
        if (incoming_.find(one) != nullptr && in.to_tell) in.told = true;
      }
    }
    told_ = at;
  }
  return moved;
}

void RdmaConnection::slot_arrived(std::uint32_t slot, std::uint32_t bytes) {
  streams_[0]->received_bytes.add(bytes);
  streams_[0]->received_chunks.add(1);
  const Slot& memory = agreed_.areas->closed.received[slot];
  const auto whole = std::span<const std::byte>(memory).first(std::min<std::size_t>(bytes, memory.size()));
  const auto header = Header::read(whole);
  if (!header || !small_.hear(header->eager_taken) || !words_.hear(header->control_taken)) {
    malformed(fmt::format("a record of {} bytes that makes no sense", bytes));
    return;
  }
  if (header->type == Header::Type::kEager) {
    small_arrived(slot, *header);
    return;
  }
  if (header->type == Header::Type::kReceives) {
    receives_told(whole.subspan(kHeaderBytes), header->count);
  } else if (header->type == Header::Type::kLarge) {
    large_announced(header->sequence, header->size);
  }
  if (error_) return;
  repost(slot);
  ++words_.taken_here;
}

void RdmaConnection::small_arrived(std::uint32_t slot, const Header& header) {
  const std::uint64_t sequence = header.sequence;
  ++small_received_;
  if (header.size > agreed_.eager_bytes)
    return malformed(fmt::format("a small message of {} bytes", header.size));
  if (PostedRequest* request = incoming_.find(sequence)) {
    if (receiving_[sequence % kWindow].seen > 0) return malformed("a message both small and large");
    deliver(sequence, *request, slot, header.size);
    return;
  }
  Held& held = held_[sequence % kEagerSlots];
  if (sequence < incoming_.posted() || sequence - incoming_.posted() >= kEagerSlots ||
      held.sequence != UINT64_MAX) {
    return malformed(fmt::format("message {} where {} was due", sequence, incoming_.posted()));
  }
  held = {sequence, slot, header.size};
  ++held_count_;
}

/// Copies a small message from its slot into the receive, and frees the slot.
void RdmaConnection::deliver(std::uint64_t sequence, PostedRequest& request, std::uint32_t slot,
                             std::uint64_t size) {
  if (size > request.size) return fail_too_large(sequence, size, request.size);
  if (size > 0) std::memcpy(request.data, agreed_.areas->closed.received[slot].data() + kHeaderBytes, size);
  repost(slot);
  ++small_.taken_here;
  // Where the sender was told of this receive it ignores that, so nothing will be written there any more.
  deregister(receiving_[sequence % kWindow].own);
  finish_receive(sequence, request, size);
}

void RdmaConnection::receives_told(std::span<const std::byte> payload, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    const Advert advert = Advert::read(payload.subspan(i * Advert::kBytes).first<Advert::kBytes>());
    if (advert.sequence < next_) continue;  // its message was small, and takes the slots
    // The other end can post receives at most a window ahead of what has been sent.
    if (advert.sequence - next_ >= kWindow)
      return malformed(fmt::format("a receive for message {} while {} is next", advert.sequence, next_));
    adverts_[advert.sequence % kWindow] = advert;
  }
}

void RdmaConnection::large_announced(std::uint64_t sequence, std::uint64_t size) {
  large_sequence_ = sequence;
  large_size_ = size;
  const PostedRequest* request = incoming_.find(sequence);
  if (request != nullptr && size > request->size) fail_too_large(sequence, size, request->size);
}

void RdmaConnection::part_arrived(std::size_t queue_pair, std::uint32_t bits, std::uint32_t bytes) {
  // The completion of a part that took several work requests names only the bytes of the last.
  streams_[queue_pair]->received_bytes.add(bytes);
  streams_[queue_pair]->received_chunks.add(1);
  const PartMark mark = PartMark::unpack(bits);
  const std::uint64_t sequence =
      incoming_.oldest() + static_cast<std::uint16_t>(mark.sequence - incoming_.oldest());
  PostedRequest* request = incoming_.find(sequence);
  Incoming& in = receiving_[sequence % kWindow];
  if (request == nullptr || !in.told || mark.parts == 0 || mark.parts > agreed_.queue_pairs.size() ||
      (in.seen > 0 && in.parts != mark.parts)) {
    return malformed(fmt::format("part of a message where none was due (mark 0x{:08x})", bits));
  }
  if (fence_ == Fence::kOpen) {
    if (const int error = post_empty_receive(agreed_, queue_pair); error != 0)
      fail_path(Cause::kSystem, fmt::format("post a receive: {}", errno_text(error)),
                agreed_.queue_pairs[queue_pair]->nic_pair);
  }
  in.parts = mark.parts;
  if (++in.seen < in.parts) return;
  // The NIC has written the size before the immediate data on the same queue pair.
  std::atomic_thread_fence(std::memory_order_acquire);
  const std::uint64_t total = agreed_.areas->open.totals[sequence % kWindow];
  if (total > request->size)
    return malformed(fmt::format("a message of {} bytes written into a receive of {}", total, request->size));
  ++large_received_;
  deregister(in.own);
  finish_receive(sequence, *request, total);
}

void RdmaConnection::repost(std::uint32_t slot) {
  if (fence_ != Fence::kOpen) return;
  if (const int error = post_slot_receive(agreed_, slot); error != 0 && !closing())
    fail_path(Cause::kSystem, fmt::format("post a receive: {}", errno_text(error)), control().nic_pair);
}

void RdmaConnection::malformed(std::string_view what) {
  fail_with(Cause::kRemote, fmt::format("the peer sent {}", what));
}

}  // namespace tombolo::transport::rdma
