// What pretended RDMA NICs do with the work that was posted to them: in the order that a seed decides, and as
// the faults of the network between them allow. pretended_verbs.h is how they are called.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/eventfd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "transport/testing/pretended_faults.h"

namespace tombolo::transport::test {

/// Whoever derives from it makes the objects, and holds its own lock around every call.
class PretendedNics {
 protected:
  static constexpr int kDevices = PretendedFaults::kDevices;

  struct Context : ibv_context {
    Context() : ibv_context{} {}
    std::deque<ibv_async_event> events;
  };
  struct Domain : ibv_pd {
    explicit Domain(const ibv_pd& from) : ibv_pd(from) {}
  };
  struct Registration : ibv_mr {
    explicit Registration(const ibv_mr& from) : ibv_mr(from) {}
    int access = 0;
  };
  struct Channel : ibv_comp_channel {
    explicit Channel(const ibv_comp_channel& from) : ibv_comp_channel(from) {}
    std::deque<ibv_cq*> events;
  };
  struct Pair;
  struct Completion {
    ibv_wc what{};
    std::uint32_t pair = 0;
    std::uint32_t frees = 0;  // entries of its send queue
  };
  struct Completions : ibv_cq {
    Completions() : ibv_cq{} {}
    std::deque<Completion> all;
    bool armed = false;
    unsigned told = 0, acknowledged = 0;
  };
  struct Send {
    ibv_send_wr what{};
    ibv_sge piece{};
    std::uint32_t entries = 1;  // with those before it that have no completion
  };
  struct Receive {
    std::uint64_t id = 0;
    ibv_sge piece{};
    bool has_piece = false;
  };
  struct Pair : ibv_qp {
    Pair() : ibv_qp{} {}
    ibv_qp_cap room{};
    std::uint32_t peer = 0, used = 0, unsignaled = 0;
    unsigned access = 0;
    int traffic_class = -1;  // until it has a peer
    std::deque<Send> sends;
    std::deque<Receive> receives;
  };
  /// A piece that the network has delayed.
  struct Late {
    Send send;
    std::uint32_t pair = 0;  // that it is for
    std::vector<std::byte> bytes;
  };

  std::size_t number_of(const ibv_context* context) const {
    return static_cast<std::size_t>(context->device - devices_);
  }
  /// Does so many pieces of work; false where there was none.
  bool work(std::size_t most) {
    bool worked = false;
    for (std::size_t i = 0; i < most; ++i) {
      if (!late_.empty() && random_() % 4 == 0) arrive_late();
      std::vector<Pair*> busy;
      for (const auto& [number, pair] : pairs_)
        if (!pair->sends.empty()) busy.push_back(pair);
      if (busy.empty()) break;
      worked = true;
      carry_out(*busy[random_() % busy.size()]);
    }
    return worked;
  }
  void carry_out(Pair& pair) {
    const Send send = pair.sends.front();
    pair.sends.pop_front();
    const auto found = pairs_.find(pair.peer);
    Pair* const other = found != pairs_.end() ? found->second : nullptr;
    if (pair.state == IBV_QPS_ERR) return end(pair, send, IBV_WC_WR_FLUSH_ERR);
    if (faults_.silent || other == nullptr || (other->state != IBV_QPS_RTR && other->state != IBV_QPS_RTS))
      return end(pair, send, IBV_WC_RETRY_EXC_ERR);
    faults_.count_piece(next_pair_);
    const bool cut = faults_.cuts_off(pair.qp_num) || faults_.dead(number_of(pair.context)) ||
                     faults_.dead(number_of(other->context));
    if (send.what.opcode == IBV_WR_RDMA_READ) {
      if (cut) return end(pair, send, IBV_WC_RETRY_EXC_ERR);
      return read(pair, *other, send);
    }
    const auto* from = reinterpret_cast<const std::byte*>(send.piece.addr);
    if (!covered(send.piece.lkey, send.piece.addr, send.piece.length, pair.pd, 0))
      return end(pair, send, IBV_WC_LOC_PROT_ERR);
    if (cut) {
      lose(send, *other, from);
      // As soft-RoCE says it, which has no route then.
      if (faults_.down.at(number_of(pair.context)) && random_() % 2 == 0)
        return end(pair, send, IBV_WC_LOC_QP_OP_ERR);
      return end(pair, send, IBV_WC_RETRY_EXC_ERR);
    }
    if (const ibv_wc_status status = arrive(*other, send, from); status != IBV_WC_SUCCESS)
      return end(pair, send, status);
    if ((send.what.send_flags & IBV_SEND_SIGNALED) != 0)
      complete(pair.send_cq, send.what.wr_id, IBV_WC_SUCCESS,
               send.what.opcode != IBV_WR_SEND ? IBV_WC_RDMA_WRITE : IBV_WC_SEND, send.piece.length, 0,
               pair.qp_num, send.entries);
  }
  void move(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes == 0) return;
    if (bus_) {
      bus_(to, from, bytes);
    } else {
      std::memcpy(to, from, bytes);
    }
  }
  /// What a network that is cut makes of a piece.
  void lose(const Send& send, Pair& other, const std::byte* from) {
    const std::uint32_t length = send.piece.length;
    switch (random_() % 4) {
      case 0:
        return;
      case 1:
        arrive(other, send, from);
        return;
      case 2: {
        Send half = send;
        half.piece.length = length / 2;
        half.what.opcode = IBV_WR_RDMA_WRITE;
        if (send.what.opcode != IBV_WR_SEND) arrive(other, half, from);
        return;
      }
      default:
        late_.push_back({send, other.qp_num, std::vector<std::byte>(length)});
        move(late_.back().bytes.data(), from, length);
    }
  }
  void arrive_late() {
    const Late late = std::move(late_.front());
    late_.pop_front();
    const auto found = pairs_.find(late.pair);
    if (found == pairs_.end()) return;
    Pair& other = *found->second;
    if (other.state == IBV_QPS_RTR || other.state == IBV_QPS_RTS) arrive(other, late.send, late.bytes.data());
  }
  /// Does at the receiving end what the piece asks for.
  ibv_wc_status arrive(Pair& pair, const Send& send, const std::byte* from) {
    Pair* const other = &pair;
    const std::uint32_t length = send.piece.length;
    const bool writes = send.what.opcode != IBV_WR_SEND;
    const bool announces = send.what.opcode != IBV_WR_RDMA_WRITE;
    if (announces && other->receives.empty()) return IBV_WC_RNR_RETRY_EXC_ERR;
    std::uint64_t to = send.what.wr.rdma.remote_addr;
    if (writes) {
      if ((other->access & IBV_ACCESS_REMOTE_WRITE) == 0 ||
          !covered(send.what.wr.rdma.rkey, to, length, other->pd, IBV_ACCESS_REMOTE_WRITE))
        return IBV_WC_REM_ACCESS_ERR;
    } else {
      const Receive& into = other->receives.front();
      to = into.piece.addr;
      if (!into.has_piece || into.piece.length < length ||
          !covered(into.piece.lkey, to, length, other->pd, IBV_ACCESS_LOCAL_WRITE))
        return IBV_WC_REM_INV_REQ_ERR;
    }
    move(reinterpret_cast<std::byte*>(to), from, length);
    if (announces) {
      complete(other->recv_cq, other->receives.front().id, IBV_WC_SUCCESS,
               writes ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV, length, writes ? send.what.imm_data : 0,
               other->qp_num, 0);
      other->receives.pop_front();
    }
    return IBV_WC_SUCCESS;
  }
  void read(Pair& pair, const Pair& other, const Send& send) {
    const std::uint64_t from = send.what.wr.rdma.remote_addr;
    const std::uint32_t length = send.piece.length;
    if (!covered(send.piece.lkey, send.piece.addr, length, pair.pd, IBV_ACCESS_LOCAL_WRITE))
      return end(pair, send, IBV_WC_LOC_PROT_ERR);
    if ((other.access & IBV_ACCESS_REMOTE_READ) == 0 ||
        !covered(send.what.wr.rdma.rkey, from, length, other.pd, IBV_ACCESS_REMOTE_READ))
      return end(pair, send, IBV_WC_REM_ACCESS_ERR);
    move(reinterpret_cast<std::byte*>(send.piece.addr), reinterpret_cast<const std::byte*>(from), length);
    ++reads_;
    if ((send.what.send_flags & IBV_SEND_SIGNALED) != 0)
      complete(pair.send_cq, send.what.wr_id, IBV_WC_SUCCESS, IBV_WC_RDMA_READ, length, 0, pair.qp_num,
               send.entries);
  }
  bool covered(std::uint32_t key, std::uint64_t address, std::uint64_t length, const ibv_pd* domain,
               int access) {
    const auto found = memories_.find(key);
    if (found == memories_.end()) return false;
    const Registration& one = *found->second;
    const auto begin = reinterpret_cast<std::uint64_t>(one.addr);
    return one.pd == domain && (one.access & access) == access && address >= begin && length <= one.length &&
           address - begin <= one.length - length;
  }
  /// A failure, after which the queue pair is of no use.
  void end(Pair& pair, const Send& send, ibv_wc_status status) {
    complete(pair.send_cq, send.what.wr_id, status, {}, 0, 0, pair.qp_num, send.entries);
    if (pair.state == IBV_QPS_ERR) return;
    pair.state = IBV_QPS_ERR;
    flush(pair);
  }
  void flush(Pair& pair) {
    for (const Receive& one : pair.receives)
      complete(pair.recv_cq, one.id, IBV_WC_WR_FLUSH_ERR, {}, 0, 0, pair.qp_num, 0);
    pair.receives.clear();
  }
  void complete(ibv_cq* plain, std::uint64_t id, ibv_wc_status status, ibv_wc_opcode opcode,
                std::uint32_t bytes, std::uint32_t immediate, std::uint32_t pair, std::uint32_t frees) {
    auto* queue = static_cast<Completions*>(plain);
    Completion one;
    one.what.wr_id = id;
    one.what.status = status;
    one.what.opcode = opcode;
    one.what.byte_len = bytes;
    one.what.imm_data = immediate;
    one.what.qp_num = one.pair = pair;
    one.frees = frees;
    queue->all.push_back(one);
    EXPECT_LE(queue->all.size(), static_cast<std::size_t>(queue->cqe)) << "the completion queue overflows";
    if (!queue->armed) return;
    queue->armed = false;
    auto* channel = static_cast<Channel*>(queue->channel);
    channel->events.push_back(queue);
    eventfd_write(channel->fd, 1);
  }

  std::mt19937 random_{1};
  ibv_device devices_[kDevices]{};
  std::map<std::uint32_t, Registration*> memories_;  // by key
  std::map<std::uint32_t, Pair*> pairs_;             // by number
  std::uint32_t next_pair_ = 10;
  PretendedFaults faults_;
  std::deque<Late> late_;
  std::size_t reads_ = 0;
  std::function<void(std::byte* to, const std::byte* from, std::size_t bytes)>
      bus_;  // null: memory is the host's
};

}  // namespace tombolo::transport::test
