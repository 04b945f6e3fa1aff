#include "transport/rdma/nic_pair.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "transport/sockets/secret.h"

namespace tombolo::transport::rdma {
namespace {

// A receive is always posted before the other end may send, so the peer is never "not ready". These few
// attempts (7, of 10 ms each) only keep a fault from hanging.
constexpr std::uint8_t kNotReadyTimer = 20, kNotReadyRetries = 6;
constexpr std::uint8_t kHops = 64;

std::span<std::byte> bytes_of(auto& object) {
  return std::as_writable_bytes(std::span(&object, 1));
}

/// Bytes per second by the port's width and speed as verbs code them (InfiniBand specification, PortInfo);
/// 0 for codes that are none.
double declared_rate(const Device& device, int number) {
  ibv_port_attr port{};
  if (device.verbs().query_port(device.context(), static_cast<std::uint8_t>(number), &port) != 0) return 0;
  const int lanes = port.active_width == 1    ? 1
                    : port.active_width == 2  ? 4
                    : port.active_width == 4  ? 8
                    : port.active_width == 8  ? 12
                    : port.active_width == 16 ? 2
                                              : 0;
  constexpr std::array<double, 9> kGigabits{2.5, 5, 10, 10, 14, 25, 50, 100, 200};
  const unsigned code = port.active_speed;
  if (!std::has_single_bit(code) || static_cast<std::size_t>(std::countr_zero(code)) >= kGigabits.size())
    return 0;
  return lanes * kGigabits[static_cast<std::size_t>(std::countr_zero(code))] * 1e9 / 8;
}

}  // namespace

NicPair::NicPair(Port port, Areas& areas, std::size_t pairs, bool control) : port_(std::move(port)) {
  const Verbs& verbs = device().verbs();
  try {
    open_ = device().add(bytes_of(areas.open), Access::kByPeer);
    bytes_per_second_ = declared_rate(device(), port_.number);
    closed_ = device().add(bytes_of(areas.closed), Access::kByNic);
    channel_ = verbs.create_comp_channel(device().context());
    if (channel_ == nullptr)
      fail_errno(errno, fmt::format("create a completion channel on RDMA device {}", device().name()));
    ::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
    const auto depth =
        static_cast<int>(pairs * (kPayloadSends + kPayloadReceives) + (control ? 2 * kControlDepth : 0));
    queue_ = verbs.create_cq(device().context(), depth, nullptr, channel_, 0);
    if (queue_ == nullptr) {
      fail_errno(errno, fmt::format("create a completion queue of {} entries on RDMA device {}", depth,
                                    device().name()));
    }
    const auto add = [this](std::uint32_t sends, std::uint32_t receives) {
      queue_pairs_.push_back(make_queue_pair(queue_, sends, receives, IBV_ACCESS_REMOTE_WRITE));
    };
    if (control) add(kControlDepth, kControlDepth);
    for (std::size_t i = 0; i < pairs; ++i) add(kPayloadSends, kPayloadReceives);
  } catch (...) {
    release();
    throw;
  }
}

NicPair::~NicPair() {
  release();
}

void NicPair::release() noexcept {
  if (device().is_copy()) return;
  const Verbs& verbs = device().verbs();
  device().look();  // destroying blocks until every event was taken
  for (auto& pair : queue_pairs_) destroy(*pair);
  if (queue_ != nullptr) {
    disarm();
    if (unacknowledged_ > 0) verbs.ack_cq_events(queue_, unacknowledged_);
    verbs.destroy_cq(queue_);
  }
  if (channel_ != nullptr) verbs.destroy_comp_channel(channel_);
  if (closed_ != nullptr) device().remove(closed_);
  if (open_ != nullptr) device().remove(open_);
}

std::unique_ptr<QueuePair> NicPair::make_queue_pair(ibv_cq* queue, std::uint32_t sends,
                                                    std::uint32_t receives, int access) {
  auto made = std::make_unique<QueuePair>();
  ibv_qp_init_attr wanted{};
  wanted.qp_context = &made->events;
  wanted.send_cq = wanted.recv_cq = queue;
  wanted.cap.max_send_wr = sends;
  wanted.cap.max_recv_wr = receives;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  wanted.qp_type = IBV_QPT_RC;
  made->pair = device().verbs().create_qp(device().domain(), &wanted);
  if (made->pair == nullptr) {
    fail_errno(errno, fmt::format("create a queue pair for {} sends and {} receives on RDMA device {}", sends,
                                  receives, device().name()));
  }
  made->send_room = sends;
  random_bytes(std::as_writable_bytes(std::span(&made->first, 1)));
  made->first &= k24Bits;

  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = static_cast<std::uint8_t>(port_.number);
  attributes.qp_access_flags = static_cast<unsigned>(access);
  const int error = device().verbs().modify_qp(
      made->pair, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error != 0) {
    destroy(*made);
    fail_errno(error, fmt::format("initialise a queue pair on RDMA device {}", device().name()));
  }
  return made;
}

void NicPair::connect(QueuePair& pair, const PortFacts& peer, const QueuePairFacts& other,
                      const RdmaOptions& options) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = static_cast<ibv_mtu>(std::min(port_.facts.mtu, peer.mtu));
  attributes.dest_qp_num = other.number;
  attributes.rq_psn = other.first;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = kNotReadyTimer;
  ibv_ah_attr& address = attributes.ah_attr;
  address.port_num = static_cast<std::uint8_t>(port_.number);
  address.sl = static_cast<std::uint8_t>(options.service_level);
  if (port_.facts.kind == topology::NicKind::kRoce) {
    address.is_global = 1;
    std::memcpy(address.grh.dgid.raw, peer.gid.data(), peer.gid.size());
    address.grh.sgid_index = static_cast<std::uint8_t>(port_.gid_index);
    address.grh.hop_limit = kHops;
    address.grh.traffic_class = static_cast<std::uint8_t>(options.traffic_class);
  } else {
    address.dlid = peer.lid;
  }
  const Verbs& verbs = device().verbs();
  int error = verbs.modify_qp(pair.pair, &attributes,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error != 0) {
    fail_errno(error,
               fmt::format("connect a queue pair of RDMA device {} (GID {}) to the peer's {}; is there a "
                           "route from the one NIC to the other?",
                           device().name(), port_.gid_index, peer.nic));
  }
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = static_cast<std::uint8_t>(options.timeout);
  attributes.retry_cnt = static_cast<std::uint8_t>(options.retries);
  attributes.rnr_retry = kNotReadyRetries;
  attributes.sq_psn = pair.first;
  attributes.max_rd_atomic = 1;
  error = verbs.modify_qp(pair.pair, &attributes,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                              IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  if (error != 0)
    fail_errno(error, fmt::format("make a queue pair of RDMA device {} ready", device().name()));
}

void NicPair::allow(QueuePair& pair, int access) {
  ibv_qp_attr attributes{};
  attributes.qp_access_flags = static_cast<unsigned>(access);
  const int error = device().verbs().modify_qp(pair.pair, &attributes, IBV_QP_ACCESS_FLAGS);
  if (error != 0)
    fail_errno(error, fmt::format("let a queue pair of RDMA device {} be read from", device().name()));
}

bool NicPair::stop(QueuePair& pair) noexcept {
  if (pair.pair == nullptr) return false;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  return device().verbs().modify_qp(pair.pair, &attributes, IBV_QP_STATE) == 0;
}

void NicPair::destroy(QueuePair& pair) noexcept {
  if (pair.pair == nullptr || device().is_copy()) return;
  device().verbs().destroy_qp(pair.pair);
  pair.pair = nullptr;
}

void NicPair::arm() noexcept {
  armed_ = true;
  ibv_req_notify_cq(queue_, 0);
}

void NicPair::disarm() noexcept {
  if (!armed_) return;
  armed_ = false;
  const Verbs& verbs = device().verbs();
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (verbs.get_cq_event(channel_, &queue, &context) == 0) ++unacknowledged_;
  // Acknowledging events takes a lock, so many are acknowledged at once.
  constexpr unsigned kMany = 1000;
  if (unacknowledged_ < kMany) return;
  verbs.ack_cq_events(queue_, unacknowledged_);
  unacknowledged_ = 0;
}

}  // namespace tombolo::transport::rdma
