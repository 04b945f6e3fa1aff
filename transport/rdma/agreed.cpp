#include "transport/rdma/agreed.h"

#include <arpa/inet.h>

#include <cstddef>

namespace tombolo::transport::rdma {

int post_slot_receive(Agreed& agreed, std::uint32_t slot) noexcept {
  Slot& memory = agreed.areas->closed.received[slot];
  ibv_sge place{reinterpret_cast<std::uint64_t>(memory.data()), static_cast<std::uint32_t>(memory.size()),
                agreed.nic_pairs[0]->closed_key()};
  ibv_recv_wr request{};
  request.wr_id = WorkId{WorkId::Kind::kSlotReceive, 0, 0, slot}.pack();
  request.sg_list = &place;
  request.num_sge = 1;
  ibv_recv_wr* refused = nullptr;
  return ibv_post_recv(agreed.queue_pairs[0]->pair, &request, &refused);
}

int post_empty_receive(Agreed& agreed, std::size_t queue_pair) noexcept {
  ibv_recv_wr request{};
  request.wr_id = WorkId{WorkId::Kind::kEmptyReceive, static_cast<std::uint8_t>(queue_pair), 0, 0}.pack();
  ibv_recv_wr* refused = nullptr;
  return ibv_post_recv(agreed.queue_pairs[queue_pair]->pair, &request, &refused);
}

int post_test(Agreed& agreed, std::size_t queue_pair) noexcept {
  QueuePair& pair = *agreed.queue_pairs[queue_pair];
  std::uint64_t& token = agreed.areas->closed.test;
  ibv_sge source{reinterpret_cast<std::uint64_t>(&token), sizeof token,
                 agreed.nic_pairs[pair.nic_pair]->closed_key()};
  ibv_send_wr request{};
  request.wr_id = WorkId{WorkId::Kind::kTest, static_cast<std::uint8_t>(queue_pair), 1, 0}.pack();
  request.sg_list = &source;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  request.send_flags = IBV_SEND_SIGNALED;
  request.imm_data = htonl(kTestMark);
  request.wr.rdma.remote_addr =
      agreed.peer_area + offsetof(OpenArea, tests) + queue_pair * sizeof(std::uint64_t);
  request.wr.rdma.rkey = agreed.peer_nic_pairs[pair.nic_pair].key;
  --pair.send_room;
  ibv_send_wr* refused = nullptr;
  return ibv_post_send(pair.pair, &request, &refused);
}

}  // namespace tombolo::transport::rdma
