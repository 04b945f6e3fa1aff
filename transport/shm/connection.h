// A connection between two processes of one host. Small messages go through a ring. Of large ones each part
// takes the way that costs less by what copies took lately: through the ring too, or read by the receiver
// straight from the sender's memory. Neither end ever writes to the other's memory: a process that is stopped
// between being allowed to write and writing could not be called back.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "transport/channel/channel_connection.h"
#include "transport/goodbye.h"
#include "transport/shm/copy_cost.h"
#include "transport/shm/options.h"
#include "transport/shm/peer_memory.h"
#include "transport/shm/ring.h"
#include "transport/shm/segment.h"

namespace tombolo::transport::shm {

/// What the two ends agreed on.
struct Agreed {
  Mapping mapping;
  Witness witness;  ///< by which the peer knows this process's memory
  PeerMemory peer;
  Fetch fetch = Fetch::kNever;  ///< kNever also where one end may not read the other's memory
};

/// Whether another process could read this memory of this one: the kernel refuses what drivers have mapped,
/// such as CUDA's pinned host memory.
bool fetchable(std::span<const std::byte> data) noexcept;

/// What one call moves each way at most, whatever the peer does meanwhile: other connections of the same
/// thread wait for it.
class TurnBudget {
 public:
  static constexpr std::size_t kMost = std::size_t{1} << 20;

  bool spent() const noexcept { return left_ == 0; }
  void copied(std::size_t bytes) noexcept { take(std::max(bytes, kLeast)); }
  /// The test whether a part can be fetched takes as long as a copy of that many bytes.
  void announced() noexcept { take(kMost / kMostToFetch); }

 private:
  static constexpr std::size_t kLeast = 4096;  // what the smallest message costs in time, and more
  void take(std::size_t bytes) noexcept { left_ -= std::min(bytes, left_); }
  std::size_t left_ = kMost;
};

class ShmConnection final : public channel::ChannelConnection {
 public:
  ShmConnection(channel::ControlChannel channel, Agreed agreed);
  ~ShmConnection() override;

  Request* post_send(std::span<const std::byte> data, Memory* memory) noexcept override;
  Request* post_receive(std::span<std::byte> buffer, Memory* memory) noexcept override;
  Outcome test(Request* request, std::size_t& bytes) noexcept override;
  bool progress() noexcept override;
  void append_wait_handles(std::vector<pollfd>& handles) const override;

  bool peer_ended() noexcept override { return channel_ended_ || error_.has_value(); }

 private:
  bool send_all() noexcept;
  bool send_part(PostedRequest& request, TurnBudget& budget) noexcept;
  bool send_part_of_large(const PostedRequest& request) noexcept;
  bool write_part(const PostedRequest& request) noexcept;
  bool announce_part(const PostedRequest& request) noexcept;
  bool may_send(const PostedRequest& request) const noexcept;
  bool is_large(const PostedRequest& request) const noexcept;
  bool may_announce() const noexcept { return announced_ - fetched_seen_ < kMostToFetch; }
  bool notice_fetched() noexcept;
  bool receive_all();
  bool fetch(PostedRequest& request, const Record& record, std::size_t length);
  void finish_receive(PostedRequest& request) noexcept {
    ChannelConnection::finish_receive(incoming_.oldest(), request, std::min(request.moved, request.size));
  }
  CopyCosts costs() const noexcept;
  void tell_costs() noexcept;
  void tell_processor() noexcept;
  std::uint32_t peer_processor() const noexcept;
  void give_way() noexcept;
  void wake_peer() noexcept;
  void look_at_channel() noexcept;
  bool advance();
  void fail_with(Cause cause, std::string_view what, GoodbyeReason reason) noexcept;

  Agreed agreed_;
  Ring& out_;
  Ring& in_;
  mutable RingWriter writer_;
  mutable RingReader reader_;
  std::uint64_t next_ = 0;       // the send whose next part is to be written
  std::size_t next_offset_ = 0;  // where in it
  std::shared_ptr<CopyBook> book_;

  // Sends of which nothing is left to be written, and parts of which the peer has yet to fetch.
  struct ToFetch {
    std::uint64_t sequence = 0, last_part = 0;
  };
  std::array<ToFetch, kRequestsPerDirection> to_fetch_{};
  std::uint64_t to_fetch_begin_ = 0, to_fetch_end_ = 0;
  std::uint64_t announced_ = 0;     // parts, since the beginning
  std::uint64_t fetched_seen_ = 0;  // of those
  std::uint64_t last_part_ = 0;     // the last announced of the message at next_; 0: none
  std::uint64_t fetched_mine_ = 0;  // the peer's parts
  bool channel_ended_ = false;
};

}  // namespace tombolo::transport::shm
