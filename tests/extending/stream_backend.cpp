#include "tests/extending/stream_backend.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "transport/bytes.h"
#include "transport/channel/channel_connection.h"
#include "transport/goodbye.h"
#include "transport/sockets/stream_io.h"

namespace tombolo::transport::stream {
namespace {

/// Stands before the bytes of each message. A goodbye, the last thing that an end sends, is a header alone.
struct Header {
  static constexpr std::size_t kBytes = 24;

  std::uint64_t goodbye = 0;   ///< 0 for a message; for a goodbye 1 + its GoodbyeReason
  std::uint64_t size = 0;      ///< of the message
  std::uint64_t capacity = 0;  ///< of the receive that is too small for it

  std::array<std::byte, kBytes> encode() const noexcept {
    std::array<std::byte, kBytes> bytes;
    store_little_endian(bytes.data(), goodbye);
    store_little_endian(bytes.data() + 8, size);
    store_little_endian(bytes.data() + 16, capacity);
    return bytes;
  }
  static Header decode(const std::array<std::byte, kBytes>& bytes) noexcept {
    return {load_little_endian<std::uint64_t>(bytes.data()),
            load_little_endian<std::uint64_t>(bytes.data() + 8),
            load_little_endian<std::uint64_t>(bytes.data() + 16)};
  }
};

class StreamConnection final : public channel::ChannelConnection {
 public:
  explicit StreamConnection(channel::ControlChannel channel)
      : ChannelConnection(std::move(channel), "stream") {}
  ~StreamConnection() override {
    if (!error_) say_goodbye(GoodbyeReason::kClosed);
  }

  Request* post_send(std::span<const std::byte> data, Memory*) noexcept override {
    if (outgoing_.full()) progress();  // a caller with nothing left to test may only post
    PostedRequest* request = new_send(data);
    if (request == nullptr || error_) return request;
    outgoing_.push(request);
    send_all();
    return request;
  }
  Request* post_receive(std::span<std::byte> buffer, Memory*) noexcept override {
    PostedRequest* request = new_receive(buffer);
    if (request != nullptr && !error_) incoming_.push(request);
    return request;
  }
  Outcome test(Request* base, std::size_t& bytes) noexcept override {
    auto* request = static_cast<PostedRequest*>(base);
    if (request->state != PostedRequest::State::kDone) progress();
    return outcome_of(*request, bytes);
  }
  bool progress() noexcept override {
    if (error_) return false;
    bool moved = receive_all();
    if (!error_) moved |= send_all();
    if (!count_turn(moved) || error_) return moved;
    if (const std::string why = stalled(); !why.empty())
      fail_with(Cause::kTimeout, why, GoodbyeReason::kTimeout);
    return moved;
  }
  void append_wait_handles(std::vector<pollfd>& handles) const override {
    fall_asleep();
    // A message that has no receive yet stays in the socket, and must not end the sleep.
    const bool reads = header_bytes_ < Header::kBytes || !incoming_.empty();
    const bool writes = error_ || !outgoing_.empty();
    handles.push_back({socket(), static_cast<short>((reads ? POLLIN : 0) | (writes ? POLLOUT : 0)), 0});
  }

 private:
  bool send_all() noexcept {
    bool moved = false;
    while (!outgoing_.empty()) {
      // `moved` of a send counts its header too, until finish_send().
      PostedRequest& request = *outgoing_.find(outgoing_.oldest());
      auto header = Header{0, request.size}.encode();
      const std::size_t of_header = std::min(request.moved, header.size());
      const std::size_t of_data = request.moved - of_header;
      iovec parts[] = {{header.data() + of_header, header.size() - of_header},
                       {request.data + of_data, request.size - of_data}};
      const ssize_t written =
          sockets::StreamIo(socket()).write(std::span(parts).first(request.size > of_data ? 2 : 1));
      if (written < 0) {
        if (errno != EAGAIN && errno != EINTR)
          fail_with(Cause::kRemote, fmt::format("send to the peer: {}", errno_text(errno)));
        break;
      }
      moved = true;
      request.moved += static_cast<std::size_t>(written);
      if (request.moved == header.size() + request.size) finish_send(outgoing_.oldest(), request);
    }
    return moved;
  }

  bool receive_all() noexcept {
    bool moved = false;
    while (!error_) {
      if (header_bytes_ < Header::kBytes) {
        if (!read(std::span(header_).subspan(header_bytes_), header_bytes_)) break;
        moved = true;
        if (header_bytes_ < Header::kBytes) continue;
        message_ = Header::decode(header_);
        if (message_.goodbye != 0) {
          const auto reason = static_cast<GoodbyeReason>(message_.goodbye - 1);
          set_error(Cause::kRemote, peer_closed(reason, message_.size, message_.capacity));
          break;
        }
      }
      if (incoming_.empty()) break;
      PostedRequest& request = *incoming_.find(incoming_.oldest());
      if (message_.size > request.size) {
        fail_with(Cause::kRemote,
                  fmt::format("message {} has {} bytes, but the receive posted for it takes {} bytes",
                              incoming_.oldest(), message_.size, request.size),
                  GoodbyeReason::kTooLarge, message_.size, request.size);
        break;
      }
      if (request.moved < message_.size) {
        if (!read({request.data + request.moved, message_.size - request.moved}, request.moved)) break;
        moved = true;
        if (request.moved < message_.size) continue;
      }
      header_bytes_ = 0;
      finish_receive(incoming_.oldest(), request, message_.size);
      moved = true;
    }
    return moved;
  }
  /// False where nothing has come; where nothing more can come, the connection has an error then.
  bool read(std::span<std::byte> to, std::size_t& bytes) noexcept {
    const ssize_t got = recv(socket(), to.data(), to.size(), MSG_DONTWAIT);
    if (got > 0) bytes += static_cast<std::size_t>(got);
    if (got == 0) fail_with(Cause::kRemote, "the peer vanished without a goodbye (did its process die?)");
    if (got < 0 && errno != EAGAIN && errno != EINTR)
      fail_with(Cause::kRemote, fmt::format("receive from the peer: {}", errno_text(errno)));
    return got > 0;
  }

  void fail_with(Cause cause, std::string_view what, GoodbyeReason reason = GoodbyeReason::kFailed,
                 std::uint64_t size = 0, std::uint64_t capacity = 0) noexcept {
    set_error(cause, what);
    say_goodbye(reason, size, capacity);
  }
  void say_goodbye(GoodbyeReason reason, std::uint64_t size = 0, std::uint64_t capacity = 0) noexcept {
    // In the middle of a message the peer would take it for bytes of that message.
    if (outgoing_.empty() || outgoing_.find(outgoing_.oldest())->moved == 0) {
      const auto bytes = Header{1 + static_cast<std::uint64_t>(reason), size, capacity}.encode();
      send(socket(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    shutdown(socket(), SHUT_WR);
  }

  std::array<std::byte, Header::kBytes> header_{};  // of the message that is being received
  std::size_t header_bytes_ = 0;                    // those of the header that have arrived
  Header message_;                                  // the header decoded, once it has arrived
};

/// The stream is there and both ends trust each other, so there is nothing to agree on.
class StreamConnecting final : public Connecting {
 public:
  explicit StreamConnecting(channel::ControlChannel channel) : channel_(std::move(channel)) {}
  std::unique_ptr<Connection> poll() override {
    return std::make_unique<StreamConnection>(std::move(channel_));
  }
  void append_wait_handles(std::vector<pollfd>&) const override {}

 private:
  channel::ControlChannel channel_;
};

}  // namespace

std::unique_ptr<Connecting> StreamBackend::set_up(channel::ControlChannel channel) {
  return std::make_unique<StreamConnecting>(std::move(channel));
}

}  // namespace tombolo::transport::stream
