// One pair of NICs of a connection: its completion queue, queue pairs and registrations at this end.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/rdma/area.h"
#include "transport/rdma/device.h"
#include "transport/rdma/options.h"
#include "transport/rdma/set_up_message.h"

namespace tombolo::transport::rdma {

/// A port of this process, ready to be used.
struct Port {
  std::shared_ptr<Device> device;
  int number = 1;
  int gid_index = 0;
  PortFacts facts;
};

/// What a completion is about, in the 64 bits that a work request carries.
struct WorkId {
  enum class Kind : std::uint8_t { kSlotSend, kPiece, kSlotReceive, kEmptyReceive, kTest, kOneSided };
  Kind kind = Kind::kTest;
  std::uint8_t queue_pair = 0;
  std::uint16_t requests = 1;  ///< entries of the send queue that the completion frees
  std::uint32_t slot = 0;

  std::uint64_t pack() const noexcept {
    return static_cast<std::uint64_t>(kind) << 56 | static_cast<std::uint64_t>(queue_pair) << 48 |
           static_cast<std::uint64_t>(requests) << 32 | slot;
  }
  static WorkId unpack(std::uint64_t bits) noexcept {
    return {static_cast<Kind>(bits >> 56), static_cast<std::uint8_t>(bits >> 48),
            static_cast<std::uint16_t>(bits >> 32), static_cast<std::uint32_t>(bits)};
  }
};

/// Owned by its NIC pair. Once the queue pair is destroyed, the NIC accesses no memory for it any more.
struct QueuePair {
  ibv_qp* pair = nullptr;  ///< null once destroyed
  QueuePairEvents events;
  std::uint32_t first = 0;      ///< packet sequence number
  std::uint32_t send_room = 0;  ///< free entries of the send queue
  std::size_t nic_pair = 0;
};

/// Entries of a queue: enough for the largest number of work requests that can be under way, so that no queue
/// can overflow. The control pair has a slot for every send, and a payload pair gets at most one write with
/// immediate data per receive that was told to the other end.
inline constexpr std::uint32_t kControlDepth = kSlots + 2;
inline constexpr std::uint32_t kPayloadSends = 256;
inline constexpr std::uint32_t kPayloadReceives = static_cast<std::uint32_t>(kRequestsPerDirection) + 2;

class NicPair {
 public:
  /// `pairs`: payload queue pairs; one more for control if `control`. Throws kSystem naming what was refused.
  NicPair(Port port, Areas& areas, std::size_t pairs, bool control);
  ~NicPair();
  NicPair(const NicPair&) = delete;
  NicPair& operator=(const NicPair&) = delete;

  const Port& port() const noexcept { return port_; }
  Device& device() const noexcept { return *port_.device; }
  /// What this end's port is declared to carry; 0 where it does not say.
  double bytes_per_second() const noexcept { return bytes_per_second_; }
  ibv_cq* queue() const noexcept { return queue_; }
  std::uint32_t open_key() const noexcept { return open_->rkey; }
  std::uint32_t open_local_key() const noexcept { return open_->lkey; }
  std::uint32_t closed_key() const noexcept { return closed_->lkey; }
  std::span<const std::unique_ptr<QueuePair>> queue_pairs() const noexcept { return queue_pairs_; }

  /// Brings the queue pair to "ready to send" towards the other end's port and queue pair. Throws kSystem. It
  /// may take a second where nothing answers for the peer's address.
  void connect(QueuePair& pair, const PortFacts& peer, const QueuePairFacts& other,
               const RdmaOptions& options);

  /// Lets the other end of a connected queue pair do that from now on. Throws kSystem.
  void allow(QueuePair& pair, int access);

  /// Brings the queue pair into its error state: its work requests complete as flushed, after those that the
  /// NIC had carried out. False where the device refuses.
  bool stop(QueuePair& pair) noexcept;

  void destroy(QueuePair& pair) noexcept;

  /// A further queue pair of this port whose work completes in `queue`; it allows its other end `access`. It
  /// must be destroyed before the queue. Throws kSystem.
  std::unique_ptr<QueuePair> make_queue_pair(ibv_cq* queue, std::uint32_t sends, std::uint32_t receives,
                                             int access);

  /// The descriptor that becomes readable after arm() once something completes.
  int descriptor() const noexcept { return channel_->fd; }
  void arm() noexcept;
  /// Takes the events that made the descriptor readable.
  void disarm() noexcept;

 private:
  void release() noexcept;

  Port port_;
  double bytes_per_second_ = 0;
  ibv_mr* open_ = nullptr;
  ibv_mr* closed_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
  std::vector<std::unique_ptr<QueuePair>> queue_pairs_;
  unsigned unacknowledged_ = 0;
  bool armed_ = false;
};

}  // namespace tombolo::transport::rdma
