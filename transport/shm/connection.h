// A connection between two processes of one host. Small messages go through a ring. Large ones are copied
// once, from the sender's memory straight into the receive; both ends copy at the same time if both make
// calls.
#pragma once

#include <array>
#include <string_view>

#include "transport/channel/channel_connection.h"
#include "transport/goodbye.h"
#include "transport/shm/ring.h"
#include "transport/shm/segment.h"

namespace tombolo::transport::shm {

/// What the two ends agreed on.
struct Agreed {
  Mapping mapping;
  std::int64_t peer_process = 0;
  bool fetch = false;  ///< each end may read the other's memory
};

/// Whether another process could read this memory of this one: the kernel refuses what drivers have mapped,
/// such as CUDA's pinned host memory.
bool fetchable(std::span<const std::byte> data) noexcept;

class ShmConnection final : public channel::ChannelConnection {
 public:
  ShmConnection(channel::ControlChannel channel, Agreed agreed);
  ~ShmConnection() override;

  Request* post_send(std::span<const std::byte> data, Memory* memory) noexcept override;
  Request* post_receive(std::span<std::byte> buffer, Memory* memory) noexcept override;
  Outcome test(Request* request, std::size_t& bytes) noexcept override;
  bool progress() noexcept override;
  void append_wait_handles(std::vector<pollfd>& handles) const override;

 private:
  bool send_all() noexcept;
  bool send_one(PostedRequest& request) noexcept;
  bool notice_fetched() noexcept;
  bool receive_all() noexcept;
  enum class Fetched { kAll, kSome, kNothing };
  Fetched fetch(const Record& record, PostedRequest& request) noexcept;
  bool help_fetching() noexcept;
  void copy_failed(int error, std::string_view verb, std::size_t bytes) noexcept;
  void withdraw() noexcept;
  void finish_receive(PostedRequest& request) noexcept {
    ChannelConnection::finish_receive(incoming_.oldest(), request, request.moved);
  }
  void wake_peer() noexcept;
  void look_at_channel() noexcept;
  void fail_with(Cause cause, std::string_view what, GoodbyeReason reason) noexcept;

  Agreed agreed_;
  Ring& out_;
  Ring& in_;
  mutable RingWriter writer_;
  mutable RingReader reader_;
  std::uint64_t next_ = 0;          // the send whose next record is to be written
  std::size_t next_offset_ = 0;     // where in it
  std::uint64_t fetched_seen_ = 0;  // of my large messages
  std::array<std::uint64_t, kRequestsPerDirection> to_fetch_{};  // sequence numbers of them, in order
  std::uint64_t to_fetch_end_ = 0;
  std::uint64_t fetched_mine_ = 0;  // of the peer's large messages
  bool fetching_ = false;           // one is under way
  std::uint32_t pieces_ = 0;        // of it, by this end
  std::uint64_t written_ = 0;       // by the peer, before it
  bool channel_ended_ = false;
};

}  // namespace tombolo::transport::shm
