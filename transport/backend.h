// A transport: how the bytes of a connection between two processes are carried once the two ends trust each
// other.
//
// To add one, derive from Backend (or from channel::ControlChannelBackend, which makes one authenticated
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

/// What a backend's messages call the connection: "shm connection to rank 3 on host b0 (NIC eth0 -> eth0
/// 10.0.0.2)".
std::string describe(std::string_view carrier, const Route& route, std::string_view peer_name);

/// The NIC kind as messages append it: " over roce (emulated)", or nothing for plain TCP.
std::string as_kind(const Route& route);

/// A router has one of each. All calls may come from any thread; what connect() and accept() return is used
/// by one thread at a time.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Carrier carrier() const noexcept = 0;
  /// Whether both ends of its connections may take the messages on over another way (Resumable).
  enum class Resumes : std::uint8_t {
    kNever,
    kInPlaceOfAnother,  ///< where it carries what a way that always does could not as the connection began
    kAlways,
  };
  virtual Resumes resumes() const noexcept { return Resumes::kNever; }
  /// Whether that NIC of this end could carry a connection of this backend at the moment. True for one that
  /// it does not use.
  virtual bool ready(const std::string& /*nic*/) const noexcept { return true; }
  /// Called with a connected socket before its handshake ends, to set options beyond those that every stream
  /// has. `nic` is this end's; `streams` is the number of streams with which the connection begins.
  virtual void prepare_stream(int /*socket*/, const std::string& /*nic*/, std::size_t /*streams*/) const {}
  /// Starts connecting. `acceptor` is this process's. The returned object's poll() throws where the two ends
  /// cannot agree or bytes do not get through; the router then tries the next best way.
  virtual std::unique_ptr<Connecting> connect(std::shared_ptr<bootstrap::Acceptor> acceptor,
                                              bootstrap::Way way) = 0;
  /// Takes the first stream that has come of a connection that a peer makes over this carrier. Where it
  /// opens the connection in the acceptor, the streams after it go there; else each comes to this call, in
  /// the place of those before.
  virtual std::unique_ptr<Connecting> accept(std::shared_ptr<bootstrap::Acceptor> acceptor,
                                             bootstrap::AuthenticatedStream stream) = 0;
};

}  // namespace tombolo::transport
