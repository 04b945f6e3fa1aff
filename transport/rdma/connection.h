// A connection over queue pairs. Messages up to a few KiB are copied through slots that are always posted;
// larger ones are written by the NIC straight into the receive, of which its owner has told the sender
// before.
//
// Nothing here relies on the order in which different queue pairs complete: a large message is whole when
// each of its parts has been announced by immediate data, on whatever queue pair. No queue can overflow: see
// nic_pair.h and Credits.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "transport/channel/channel_connection.h"
#include "transport/channel/peer_watch.h"
#include "transport/rdma/agreed.h"
#include "transport/rdma/flush.h"
#include "transport/rdma/memory.h"
#include "transport/rdma/one_sided.h"
#include "transport/rdma/records.h"
#include "transport/rdma/shares.h"
#include "transport/resumable.h"

namespace tombolo::transport::rdma {

class RdmaConnection final : public channel::ChannelConnection, public Resumable {
 public:
  RdmaConnection(channel::ControlChannel channel, Agreed agreed);
  ~RdmaConnection() override;

  std::unique_ptr<Memory> register_memory(std::span<std::byte> buffer, MemoryKind kind) override;
  std::unique_ptr<Memory> register_dma_buf(std::span<std::byte> range, int file,
                                           std::uint64_t offset) override;
  Request* post_send(std::span<const std::byte> data, Memory* memory) noexcept override;
  Request* post_receive(std::span<std::byte> buffer, Memory* memory) noexcept override;
  Request* post_flush(std::span<const std::byte> data, Memory* memory) noexcept override;
  Outcome test(Request* request, std::size_t& bytes) noexcept override;
  bool progress() noexcept override;
  void append_wait_handles(std::vector<pollfd>& handles) const override;
  Resumable* resumable() noexcept override { return route().resumable ? this : nullptr; }
  OneSided* one_sided() noexcept override { return &one_sided_; }
  bool path_failed() const noexcept override { return path_failed_; }
  std::vector<PairOfNics> nic_pairs() const override;
  void peer_says_failed(std::uint64_t pairs) noexcept override;
  void let_gpu_memory_move() noexcept override { gpu_memory_moves_ = true; }
  std::optional<Error> fence(const Take& early, const Take& unsure) noexcept override;

  bool peer_ended() noexcept override { return closing() || error_.has_value(); }

 private:
  static constexpr std::size_t kWindow = kRequestsPerDirection;

  /// How many slots of the other end one kind of record may still fill, by the counters in its headers.
  struct Credits {
    std::uint32_t all = 0;
    std::uint32_t sent = 0;           ///< records sent, modulo 2^32
    std::uint32_t taken = 0;          ///< of these, taken by the other end as it said last
    std::uint32_t taken_here = 0;     ///< records of the other end that were taken here
    std::uint32_t reported_here = 0;  ///< of these, reported to the other end
    std::uint32_t left() const noexcept { return all - (sent - taken); }
    std::uint32_t unreported() const noexcept { return taken_here - reported_here; }
    /// Takes the other end's counter. False where it claims to have taken records that were never sent.
    bool hear(std::uint32_t now) noexcept {
      if (now - taken > sent - taken) return false;
      taken = now;
      return true;
    }
  };
  /// A send that is not done, by its place in the window.
  struct Outgoing {
    const RdmaMemory* memory = nullptr;
    Registrations own{};  ///< made for this send alone
    bool begun = false, announced = false;
    std::uint32_t parts = 0, next_part = 0;
    std::size_t part_begin = 0, part_offset = 0;
    std::uint32_t under_way = 0;  ///< work requests
  };
  /// A receive that is not done, by its place in the window.
  struct Incoming {
    const RdmaMemory* memory = nullptr;
    Registrations own{};
    bool to_tell = false, told = false;
    std::uint32_t parts = 0, seen = 0;
  };

  /// Runs the work of one call. What it throws fails this connection.
  template <typename Work>
  void guarded(const Work& work) noexcept {
    transport::guarded(work, [this](Cause cause, std::string_view what) noexcept { fail_with(cause, what); });
  }

  // connection.cpp
  bool advance();
  QueuePair& control() noexcept { return *agreed_.queue_pairs[0]; }
  bool closing() const noexcept { return peer_.closing(); }
  bool poll_all();
  void prepare_for_gpu_memory(std::size_t bytes);
  bool poll_flushes();
  bool advance_one_sided();
  void handle(const ibv_wc& completion);
  void look_at_channel();
  void close_when_drained();
  void finish_received(std::uint64_t end) noexcept;
  Goodbye goodbye_for(GoodbyeReason reason, std::uint64_t size = 0,
                      std::uint64_t capacity = 0) const noexcept;
  void fail_with(Cause cause, std::string_view what, const Goodbye& goodbye) noexcept;
  void fail_with(Cause cause, std::string_view what) noexcept;
  void fail_too_large(std::uint64_t sequence, std::uint64_t size, std::uint64_t capacity);
  void end_payload() noexcept;
  bool register_for(const std::byte* data, std::size_t size, const RdmaMemory* memory, Access access,
                    Registrations& own);
  void deregister(Registrations& own) noexcept;
  const Registrations& registrations_of(const RdmaMemory* memory, const Registrations& own) const noexcept {
    return memory != nullptr ? memory->registrations() : own;
  }

  // failures.cpp
  void broken(const ibv_wc& completion);
  void look_at_devices();

  // fence.cpp
  void fail_path(Cause cause, std::string_view what, std::size_t nic_pair) noexcept;
  void leave_path(Cause cause, std::string_view what) noexcept;
  bool failed(std::size_t nic_pair) const noexcept;
  void drain();
  bool note_drained(const ibv_wc& completion);

  // sender.cpp
  bool send_all();
  bool send_small(std::uint64_t sequence, PostedRequest& request);
  bool send_large(std::uint64_t sequence, PostedRequest& request);
  bool send_part(std::uint64_t sequence, PostedRequest& request, Outgoing& out, const Advert& advert);
  bool post_slot(Header header, std::span<const std::byte> payload);
  bool may_say(bool urgent) const noexcept {
    return !free_slots_.empty() && words_.left() > (urgent ? 0U : 1U);
  }
  bool report();
  void piece_done(std::uint32_t at) noexcept;
  void slot_sent(std::uint32_t slot) noexcept;

  // receiver.cpp
  void begin_receive(std::uint64_t sequence, PostedRequest& request);
  bool tell_receives();
  void slot_arrived(std::uint32_t slot, std::uint32_t bytes);
  void small_arrived(std::uint32_t slot, const Header& header);
  void deliver(std::uint64_t sequence, PostedRequest& request, std::uint32_t slot, std::uint64_t size);
  void receives_told(std::span<const std::byte> payload, std::uint32_t count);
  void large_announced(std::uint64_t sequence, std::uint64_t size);
  void part_arrived(std::size_t queue_pair, std::uint32_t mark, std::uint32_t bytes);
  void repost(std::uint32_t slot);
  void malformed(std::string_view what);

  Agreed agreed_;
  channel::PeerWatch peer_;
  std::array<Outgoing, kWindow> sending_{};
  std::array<Incoming, kWindow> receiving_{};
  std::array<Advert, kWindow> adverts_{};  // of the other end's receives
  std::uint64_t next_ = 0;                 // the next send to give to the NIC
  std::uint64_t told_ = 0;  // receives before this one were told to the other end, or need not be told
  Shares shares_;           // among the payload pairs
  PartList part_list_{};
  std::span<const Part> parts_;  // of the large message that is being given to the NIC: there is only one
  std::uint64_t longest_ = 0;    // bytes of one work request
  Credits small_{kEagerSlots}, words_{kControlSlots};
  std::vector<std::uint32_t> free_slots_;  // to send from
  // By slot: the small message in it, where that counts as sent only when the peer's NIC has it.
  static constexpr std::uint64_t kNoMessage = UINT64_MAX;
  std::array<std::uint64_t, kSlots> slot_messages_;
  enum class Fence : std::uint8_t { kOpen, kDraining, kFenced };
  Fence fence_ = Fence::kOpen;
  bool gpu_memory_moves_ = false;                  // to other ways, as its owner says
  bool path_failed_ = false;                       // what error_ is about
  std::bitset<Goodbye::kMostPairs> failed_pairs_;  // of NICs: noticed here, or said by the peer
  struct Held {
    std::uint64_t sequence = UINT64_MAX;
    std::uint32_t slot = 0;
    std::uint64_t size = 0;
  };
  std::array<Held, kEagerSlots> held_{};  // small messages whose receive is not posted yet
  std::uint32_t held_count_ = 0;
  std::uint64_t large_sequence_ = UINT64_MAX, large_size_ = 0;  // announced last
  std::uint64_t small_sent_ = 0, large_sent_ = 0, small_received_ = 0, large_received_ = 0;
  std::vector<StreamMeter*> streams_;  // by queue pair
  OneSidedWork one_sided_{{agreed_, shares_, streams_, longest_, *channel_.clock, error_}};
  mutable std::vector<ibv_wc> early_;
  std::mutex gpu_memory_lock_;        // protects the making of the flusher: any thread may register
  std::unique_ptr<Flusher> flusher_;  // made with the first GPU memory
  std::atomic<Flusher*> flushes_ = nullptr;
};

}  // namespace tombolo::transport::rdma
