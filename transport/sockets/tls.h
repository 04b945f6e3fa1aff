// TLS 1.3 for TCP streams, by OpenSSL: what all streams of a router share.
//
// TLS comes first, and our own handshake (handshake.h) runs inside it: an eavesdropper sees neither host
// names nor NICs, and a peer without the key gets none of our messages. What he sees is which listener, or
// which connection that is there already, a stream is for (destination.h): by that the accepting process,
// whose routers share one port, finds the right key. The accepting end tells the two apart by the first byte:
// 0x16 begins a TLS handshake, 'T' ours. Where the two ends' settings differ, each says so without TLS, in a
// message without names. The MACs of our handshake cover a value that only the two ends of this TLS session
// know, so that a man in the middle is noticed even if he has a certificate.
//
// Without certificates each session has a key of its own, derived from the shared secret (HKDF) and a random
// number that travels as the key's identity; ephemeral Diffie-Hellman comes on top, so that a secret that
// leaks later does not reveal what was sent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "transport/sockets/secret.h"
#include "transport/sockets/tls_options.h"

struct ssl_ctx_st;
struct ssl_st;
struct bio_method_st;

namespace tombolo::transport::sockets {

class TlsStream;

/// The first byte of a TLS handshake, and of a TLS alert.
inline constexpr std::byte kTlsHandshakeByte{0x16}, kTlsAlertByte{0x15};

/// The session id context, by which OpenSSL marks sessions that belong together.
inline constexpr std::array<unsigned char, 3> kTlsSessions{'T', 'm', 'b'};

/// Immutable once made; used from any thread. The first one in a process keeps the library that holds it in
/// memory for good, because OpenSSL cannot be unloaded.
class Tls : public std::enable_shared_from_this<Tls> {
 public:
  /// Reads the files. Throws kInvalidUsage naming the file and what is wrong with it.
  Tls(const TlsOptions& options, const Secret& secret, std::string secret_hint);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  /// A session on a connected, non-blocking socket, which it does not own. The connecting end tells the other
  /// whom it wants by `server_name`; empty: it does not. Throws kSystem.
  std::unique_ptr<TlsStream> begin(int socket, bool connecting, const std::string& server_name = {}) const;

  bool by_certificate() const noexcept { return !options_.certificate.empty(); }
  const TlsOptions& options() const noexcept { return options_; }
  const Secret& secret() const noexcept { return secret_; }
  const std::string& secret_hint() const noexcept { return secret_hint_; }
  /// "TLS 1.3 by the shared secret".
  std::string description() const;

 private:
  friend class TlsStream;
  void use_files();
  void use_secret();
  /// Gives an accepting session that began with another's keys these ones.
  void take_over(ssl_st* ssl) const;

  TlsOptions options_;
  Secret secret_;
  std::string secret_hint_;
  ssl_ctx_st* context_ = nullptr;
  bio_method_st* method_ = nullptr;
};

}  // namespace tombolo::transport::sockets
