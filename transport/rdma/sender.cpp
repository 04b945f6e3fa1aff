// The sending half of a connection.
#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "transport/rdma/connection.h"

namespace tombolo::transport::rdma {
Request* RdmaConnection::post_send(std::span<const std::byte> data, Memory* memory) noexcept {
  PostedRequest* request = new_send(data);
  if (request == nullptr || error_) return request;
  Outgoing& out = sending_[outgoing_.posted() % kWindow];
  out = Outgoing{};
  out.memory = static_cast<RdmaMemory*>(memory);
  outgoing_.push(request);
  if (next_ + 1 == outgoing_.posted()) guarded([&] { send_all(); });  // nothing waits before it
  return request;
}

/// Sends in order. No small message overtakes a large one, so that the small messages without a receive never
/// outnumber the slots.
bool RdmaConnection::send_all() {
  bool moved = false;
  while (!error_ && !closing() && next_ < outgoing_.posted()) {
    PostedRequest& request = *outgoing_.find(next_);
    const bool small = request.size <= agreed_.eager_bytes;
    if (!(small ? send_small(next_, request) : send_large(next_, request))) break;
    ++next_;
    moved = true;
  }
  return moved;
}

bool RdmaConnection::send_small(std::uint64_t sequence, PostedRequest& request) {
  if (small_.left() == 0 || free_slots_.empty()) return false;
  Header header;
  header.type = Header::Type::kEager;
  header.sequence = sequence;
  header.size = request.size;
  const std::uint32_t slot = free_slots_.back();
  if (!post_slot(header, {request.data, request.size})) return false;
  ++small_.sent;
  ++small_sent_;
  // It is copied. Where it may have to go again over another way its buffer is still needed.
  if (route().resumable)
    slot_messages_[slot] = sequence;
  else
    finish_send(sequence, request);
  return true;
}

/// Gives a large message to the NIC; true once all of it has been given.
bool RdmaConnection::send_large(std::uint64_t sequence, PostedRequest& request) {
  Outgoing& out = sending_[sequence % kWindow];
  const Advert& advert = adverts_[sequence % kWindow];
  if (advert.sequence != sequence) {
    // The sender was not told of a receive that is too small for any large message. It announces the message,
    // so that the receive's owner learns why nothing comes.
    if (!out.announced && may_say(false)) {
      Header header;
      header.type = Header::Type::kLarge;
      header.sequence = sequence;
      header.size = request.size;
      out.announced = post_slot(header, {});
      if (out.announced) ++words_.sent;
    }
    return false;
  }
  if (!out.begun) {
    if (request.size > advert.capacity) {
      fail_too_large(sequence, request.size, advert.capacity);
      return false;
    }
    if (!register_for(request.data, request.size, out.memory, Access::kNone, out.own)) return false;
    parts_ = shares_.divide(request.size, part_list_);
    out.parts = static_cast<std::uint32_t>(parts_.size());
    out.begun = true;
  }
  while (out.next_part < out.parts)
    if (!send_part(sequence, request, out, advert)) return false;
  return true;
}

/// Sends a part over one queue pair, as one work request, or as several where the NIC's longest is shorter.
/// Only the last carries immediate data, and so takes one of the other end's posted receives.
bool RdmaConnection::send_part(std::uint64_t sequence, PostedRequest& request, Outgoing& out,
                               const Advert& advert) {
  const std::size_t at = sequence % kWindow;
  const std::size_t index = parts_[out.next_part].pair + 1;  // the first is for control
  QueuePair& pair = *agreed_.queue_pairs[index];
  const NicPair& nic_pair = *agreed_.nic_pairs[pair.nic_pair];
  const std::size_t begin = out.part_begin;
  const std::size_t size = parts_[out.next_part].bytes;
  while (out.part_offset < size) {
    const std::size_t length = std::min<std::size_t>(size - out.part_offset, longest_);
    const bool last = out.part_offset + length == size;
    const bool tells_total = out.next_part == 0 && last;
    const std::uint32_t entries = tells_total ? 2 : 1;
    if (pair.send_room < entries) return false;

    ibv_sge source{reinterpret_cast<std::uint64_t>(request.data + begin + out.part_offset),
                   static_cast<std::uint32_t>(length),
                   registrations_of(out.memory, out.own)[pair.nic_pair]->lkey};
    ibv_send_wr piece{};
    piece.wr_id = WorkId{WorkId::Kind::kPiece, static_cast<std::uint8_t>(index),
                         static_cast<std::uint16_t>(entries), static_cast<std::uint32_t>(at)}
                      .pack();
    piece.sg_list = &source;
    piece.num_sge = 1;
    piece.opcode = last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    piece.send_flags = IBV_SEND_SIGNALED;
    const PartMark mark{static_cast<std::uint16_t>(sequence), static_cast<std::uint16_t>(out.parts)};
    piece.imm_data = htonl(mark.pack());
    piece.wr.rdma.remote_addr = advert.address + begin + out.part_offset;
    piece.wr.rdma.rkey = advert.keys[pair.nic_pair];

    // The message's size goes before the mark on the same queue pair, which keeps the order. The NIC may read
    // it from then on, so that later pieces leave it alone.
    std::uint64_t& total = agreed_.areas->closed.totals[at];
    if (tells_total) total = request.size;
    ibv_sge total_source{reinterpret_cast<std::uint64_t>(&total), sizeof total, nic_pair.closed_key()};
    ibv_send_wr telling{};
    telling.next = &piece;
    telling.sg_list = &total_source;
    telling.num_sge = 1;
    telling.opcode = IBV_WR_RDMA_WRITE;
    telling.wr.rdma.remote_addr = agreed_.peer_area + offsetof(OpenArea, totals) + at * sizeof(std::uint64_t);
    telling.wr.rdma.rkey = agreed_.peer_nic_pairs[pair.nic_pair].key;

    ibv_send_wr* refused = nullptr;
    if (const int error = ibv_post_send(pair.pair, tells_total ? &telling : &piece, &refused); error != 0) {
      fail_path(Cause::kSystem,
                fmt::format("post a write of {} bytes to RDMA device {}: {}", length,
                            nic_pair.device().name(), errno_text(error)),
                pair.nic_pair);
      return false;
    }
    pair.send_room -= entries;
    shares_.posted(index - 1, length, shares_.learns() ? now() : TimePoint{});
    streams_[index]->sent_bytes.add(length);
    streams_[index]->sent_chunks.add(1);
    ++out.under_way;
    out.part_offset += length;
  }
  ++out.next_part;
  out.part_begin += size;
  out.part_offset = 0;
  return true;
}

void RdmaConnection::piece_done(std::uint32_t at) noexcept {
  Outgoing& out = sending_[at];
  --out.under_way;
  if (out.under_way > 0 || out.next_part < out.parts) return;
  // The window holds one unfinished message per place.
  const std::uint64_t sequence = outgoing_.oldest() + (at - outgoing_.oldest()) % kWindow;
  deregister(out.own);
  ++large_sent_;
  finish_send(sequence, *outgoing_.find(sequence));
}

void RdmaConnection::slot_sent(std::uint32_t slot) noexcept {
  ++control().send_room;
  free_slots_.push_back(slot);
  const std::uint64_t sequence = std::exchange(slot_messages_[slot], kNoMessage);
  if (sequence == kNoMessage) return;
  if (PostedRequest* request = outgoing_.find(sequence)) finish_send(sequence, *request);
}

/// Sends one slot of the control pair. The caller has checked that one is free, and that the other end has
/// room.
bool RdmaConnection::post_slot(Header header, std::span<const std::byte> payload) {
  const std::uint32_t slot = free_slots_.back();
  Slot& memory = agreed_.areas->closed.sent[slot];
  header.eager_taken = small_.reported_here = small_.taken_here;
  header.control_taken = words_.reported_here = words_.taken_here;
  header.write(std::span(memory).first<kHeaderBytes>());
  if (!payload.empty()) std::memcpy(memory.data() + kHeaderBytes, payload.data(), payload.size());

  ibv_sge source{reinterpret_cast<std::uint64_t>(memory.data()),
                 static_cast<std::uint32_t>(kHeaderBytes + payload.size()),
                 agreed_.nic_pairs[0]->closed_key()};
  ibv_send_wr request{};
  request.wr_id = WorkId{WorkId::Kind::kSlotSend, 0, 1, slot}.pack();
  request.sg_list = &source;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* refused = nullptr;
  if (const int error = ibv_post_send(control().pair, &request, &refused); error != 0) {
    fail_path(Cause::kSystem,
              fmt::format("post a send to RDMA device {}: {}", agreed_.nic_pairs[0]->device().name(),
                          errno_text(error)),
              control().nic_pair);
    return false;
  }
  --control().send_room;
  streams_[0]->sent_bytes.add(source.length);
  streams_[0]->sent_chunks.add(1);
  free_slots_.pop_back();
  return true;
}

/// Tells the other end of free slots before it runs out of them. One of the other end's slots is kept for
/// this record alone, and used only where half of the slots are given back, so that the two ends can never
/// both wait for the other's credit.
bool RdmaConnection::report() {
  const bool words_due = words_.unreported() >= kControlSlots / 2;
  const bool small_due = small_.unreported() >= kEagerSlots / 2;
  if ((!words_due && !small_due) || closing() || !may_say(words_due)) return false;
  if (!post_slot(Header{}, {})) return false;
  ++words_.sent;
  return true;
}

}  // namespace tombolo::transport::rdma
