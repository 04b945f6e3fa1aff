// The client side of the store: frames over a socket that never blocks longer than a deadline, and a watch on
// one key that a poll(2) loop can include.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectives/rendezvous/bootstrap.h"
#include "collectives/rendezvous/store_protocol.h"
#include "transport/descriptor.h"

namespace tombolo::collectives::store {

/// An authenticated connection to the store. One thread at a time. Owns its socket.
class Channel {
 public:
  /// As Store::connect().
  static std::unique_ptr<Channel> connect(const std::string& address, int port,
                                          const transport::Secret& secret, Deadline deadline,
                                          Store::IfNobodyListens otherwise = Store::IfNobodyListens::kRetry);
  /// Throws kTimeout, kRemote when the store is gone, or kInvalidUsage in a forked child, which has no part
  /// in its parent's connection.
  void send(std::span<const std::byte> frame, Deadline deadline);
  /// The next frame, valid until the next call; nothing when the deadline passed first (a part that came is
  /// kept). Throws kRemote when the server has said that it closes, and as send() does.
  std::optional<Frame> receive(Deadline deadline);
  int descriptor() const noexcept { return socket_.get(); }
  /// "the store at 127.0.0.1:29400"
  const std::string& name() const noexcept { return name_; }
  const StoreId& store() const noexcept { return store_; }
  bool server_closed() const noexcept { return server_closed_; }

 private:
  Channel(transport::Descriptor socket, std::string name)
      : socket_(std::move(socket)), name_(std::move(name)) {}
  void handshake(const transport::Secret& secret, Deadline deadline);
  bool read_until(std::size_t bytes, Deadline deadline);
  [[noreturn]] void lost(std::string_view why) const;

  transport::Descriptor socket_;
  unsigned generation_ = transport::fork_generation();
  std::string name_;
  StoreId store_{};
  bool server_closed_ = false;
  std::vector<std::byte> buffer_;  // what has been read of the current frame
  std::size_t filled_ = 0;
};

/// A watch over a connection of its own.
class Watch final : public StoreWatch {
 public:
  /// As StoreAccess::watch().
  Watch(std::unique_ptr<Channel> channel, std::string_view key, std::string_view presence, Deadline deadline);
  News check() override;
  bool has_ended(Deadline deadline) override;
  void ask(std::string_view key) override;
  std::optional<bool> answer() override;
  const std::vector<std::byte>& value() const noexcept override { return value_; }
  int descriptor() const noexcept override { return news_ == News::kNone ? channel_->descriptor() : -1; }

 private:
  void hold(std::string_view presence, Deadline deadline);
  /// Whether the value came by the deadline. Throws where the connection has ended.
  bool await_value(Deadline deadline);
  News why_it_ended() const noexcept {
    return channel_->server_closed() ? News::kStoreLeft : News::kStoreLost;
  }

  std::unique_ptr<Channel> channel_;
  std::uint32_t last_request_ = 0, question_ = 0;  // question_: the request that is to be answered; 0: none
  std::optional<bool> answer_;
  News news_ = News::kNone;
  std::vector<std::byte> value_;
};

}  // namespace tombolo::collectives::store
