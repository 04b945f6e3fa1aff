// A connection over one or more TCP streams.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "transport/descriptor.h"
#include "transport/tcp/rate_limit.h"
#include "transport/tcp/receiver.h"
#include "transport/tcp/sender.h"
#include "transport/transport.h"

namespace tombolo::transport::tcp {

/// What the handshake hands over.
struct Established {
  std::vector<Descriptor> sockets;  ///< by stream index
  std::uint64_t label = 0;
  Route route;
  std::string peer_name;        ///< "rank 3"; may be empty
  std::size_t chunk_bytes = 0;  ///< most payload bytes per chunk
  Duration idle_timeout{};
  std::shared_ptr<NicRateLimit> limit;  ///< may be null
  const Clock* clock = nullptr;
  Log log;
};

class TcpConnection final : public Connection {
 public:
  explicit TcpConnection(Established established);
  /// Says goodbye. Waits for a bounded time until the peer's kernel has what was reported as sent.
  ~TcpConnection() override;

  Request* post_send(std::span<const std::byte> data, Memory* memory) noexcept override;
  Request* post_receive(std::span<std::byte> buffer, Memory* memory) noexcept override;
  Outcome test(Request* request, std::size_t& bytes) noexcept override;
  bool progress() noexcept override;
  void append_wait_handles(std::vector<pollfd>& handles) const override;
  const Error* error() const noexcept override { return error_ ? &*error_ : nullptr; }
  std::uint64_t label() const noexcept override { return label_; }
  const Route& route() const noexcept override { return route_; }
  Statistics statistics() const noexcept override;

 private:
  struct Ready {
    bool in = true, out = true;
    bool hang_up = false;  // keep reading until the end is seen
  };

  bool send_all() noexcept;
  bool receive_all() noexcept;
  void look_for_events() noexcept;
  void note_end(std::size_t stream) noexcept;
  void check_ends() noexcept;
  void check_fault() noexcept;
  void check_idle() noexcept;
  void read_what_is_left() noexcept;
  void fail_io(std::string_view operation, int error_number) noexcept;
  void fail_with(Cause cause, std::string_view what, GoodbyeReason reason, const FrameHeader& about) noexcept;
  std::string in_flight() noexcept;
  void say_goodbye(const FrameHeader& header) noexcept;
  void linger() noexcept;

  std::vector<Descriptor> sockets_;
  std::vector<int> fds_;
  std::vector<Ready> ready_;
  Descriptor epoll_;  // only with several streams
  Descriptor timer_;  // only with a limit
  std::uint64_t label_;
  Route route_;
  std::string description_;
  Duration idle_timeout_;
  std::shared_ptr<NicRateLimit> limit_;
  const Clock* clock_;
  Log log_;

  Sender sender_;
  Receiver receiver_;
  RequestPool sends_{true}, receives_{false};
  std::optional<Error> error_;

  bool fresh_send_ = false;  // posted since the last write
  bool moved_ = true;        // something moved since `last_moved_` was taken
  unsigned skipped_reads_ = 0;
  TimePoint last_moved_{}, last_checked_{};
  std::optional<TimePoint> torn_at_;  // a stream ended without a goodbye
};

}  // namespace tombolo::transport::tcp
