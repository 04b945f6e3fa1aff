// The accepting end of a connection over TCP: gathers the streams that it begins with.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "transport/bootstrap/acceptor.h"
#include "transport/bootstrap/inbox.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/settings.h"

namespace tombolo::transport::tcp {

/// Gathers the streams of one connection until all are there. Used by one thread at a time.
class StreamGroup {
 public:
  explicit StreamGroup(std::size_t streams) : streams_(streams), missing_(streams) {}

  /// Adds a stream, or puts it in the place of an earlier one of its number, which the connecting end has
  /// given up: of equal numbers the highest epoch counts. One that does not fit is dropped, which is logged.
  void add(bootstrap::AuthenticatedStream stream, const Log& log);
  bool complete() const noexcept { return missing_ == 0; }
  std::size_t missing() const noexcept { return missing_; }
  std::size_t size() const noexcept { return streams_.size(); }
  std::vector<bootstrap::AuthenticatedStream> take() noexcept { return std::move(streams_); }

 private:
  std::vector<bootstrap::AuthenticatedStream> streams_;  // by number; without a socket while missing
  std::size_t missing_;
};

class TcpAccepting final : public Connecting {
 public:
  /// `first` is the first stream that has come, whatever its number. Throws kRemote where the connection is
  /// open already: another listener of this process may have begun it meanwhile.
  TcpAccepting(std::shared_ptr<const TcpSettings> settings, std::shared_ptr<bootstrap::Acceptor> acceptor,
               bootstrap::AuthenticatedStream first);
  ~TcpAccepting() override;

  std::unique_ptr<Connection> poll() override;
  void append_wait_handles(std::vector<pollfd>& handles) const override;

 private:
  std::shared_ptr<const TcpSettings> settings_;
  std::shared_ptr<bootstrap::Acceptor> acceptor_;
  StreamGroup group_;
  /// Where the streams after the first arrive, which the connection takes over.
  std::shared_ptr<bootstrap::Inbox> inbox_ = std::make_shared<bootstrap::Inbox>();
  bootstrap::Nonce number_;
  std::vector<bootstrap::AuthenticatedStream> further_;  // that the peer has added already
  std::string peer_host_;
  Deadline deadline_;
  bool made_ = false;  // the connection owns the inbox and its entry in the acceptor
};

/// Turns an accepted stream into what a connection takes over. Its target is where the connecting end's
/// process accepts streams itself.
ConnectedStream connected_stream(const TcpSettings& settings, const bootstrap::Acceptor& acceptor,
                                 bootstrap::AuthenticatedStream stream);

}  // namespace tombolo::transport::tcp
