// A transport: how the bytes of a connection between two processes are carried once the two ends trust each
// other.
//
// To add one, derive from Backend (or from bootstrap::ControlChannelBackend, which makes one authenticated
// stream between the two ends and leaves it to you), give Carrier a value and a name, and add a line to the
// table in routing/backends.cpp. docs/extending.md shows it with an example.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "transport/transport.h"

namespace tombolo::transport {

namespace bootstrap {
class Acceptor;
struct AuthenticatedStream;
struct Way;
}  // namespace bootstrap

/// What a backend's code names in its messages: "shm connection to rank 3 on host b0 (NIC eth0 ->
/// eth0 10.0.0.2)".
std::string describe(std::string_view carrier, const Route& route, std::string_view peer_name);

/// " over roce (emulated)", or nothing for plain TCP.
std::string as_kind(const Route& route);

/// One per router. All calls may come from any thread; what connect() and accept() return belongs to one at a
/// time.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Carrier carrier() const noexcept = 0;
  /// Called with a connected socket before its handshake ends, for options beyond those that every stream
  /// has. `nic`: of this end. `streams`: with how many streams its connection begins.
  virtual void prepare_stream(int /*socket*/, const std::string& /*nic*/, std::size_t /*streams*/) const {}
  /// Starts connecting. `acceptor`: of this process. What it returns throws where the two ends cannot agree
  /// or bytes do not get through; the router then turns to the next best way.
  virtual std::unique_ptr<Connecting> connect(std::shared_ptr<bootstrap::Acceptor> acceptor,
                                              bootstrap::Way way) = 0;
  /// Takes a stream that a peer opened for this carrier. Null where it belongs to a connection of which an
  /// earlier call returned the beginning.
  virtual std::unique_ptr<Connecting> accept(std::shared_ptr<bootstrap::Acceptor> acceptor,
                                             bootstrap::AuthenticatedStream stream) = 0;
};

}  // namespace tombolo::transport
