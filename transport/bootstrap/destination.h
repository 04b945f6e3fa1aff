// Which listener or connection of a process a stream is for, in a form that fits into TLS' first message.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "transport/bootstrap/handshake.h"

namespace tombolo::transport::bootstrap {

struct Destination {
  Purpose purpose = Purpose::kJoin;
  std::uint32_t listener = 0;  ///< kJoin
  Nonce connection{};          ///< a kJoin that comes again belongs to it too

  static Destination of(const Hello& hello) noexcept;
  /// The server name (RFC 6066, 3) with which the connecting end begins TLS, so that the accepting process
  /// knows which of its keys to use. It is sent in plain: it tells an eavesdropper which streams are for one
  /// listener or one connection, but is no secret.
  std::string server_name() const;
  /// Reads such a name; nothing for any other text.
  static std::optional<Destination> parse(std::string_view server_name) noexcept;
};

}  // namespace tombolo::transport::bootstrap
