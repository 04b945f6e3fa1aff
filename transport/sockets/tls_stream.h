// One TCP stream's TLS session: takes plain bytes and writes records to the socket, and the reverse.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "transport/sockets/sealed_bytes.h"
#include "transport/sockets/step.h"

struct ssl_st;
struct bio_method_st;
struct ssl_ctx_st;

namespace tombolo::transport::sockets {

class Tls;

/// Belongs to one thread at a time. Does not own the socket, which must outlive it.
class TlsStream {
 public:
  /// The errno of a read that met an altered record, or bytes that are no record.
  static constexpr int kAltered = 71;  // EPROTO

  TlsStream(std::shared_ptr<const Tls> tls, ssl_ctx_st* context, const bio_method_st* method, int socket,
            bool connecting, const std::string& server_name);
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  /// Moves the handshake as far as it goes without blocking. kEnded: the peer closed first; kError: trouble()
  /// says what.
  Step handshake() { return handshake(SealedBytes::Reads::kHandshake); }
  /// Connecting end: the same as far as it goes without reading anything, which is to send its first words.
  Step begin_handshake() { return handshake(SealedBytes::Reads::kNothing); }
  /// Accepting end, before the handshake: it stops once the peer has said whom it wants, until use() gives
  /// the keys for that.
  void wait_for_keys() noexcept { waits_for_keys_ = true; }
  /// While the handshake waits for keys: the server name that the peer sent, which may be any bytes or none.
  /// Else nothing.
  const std::optional<std::string>& server_name() const noexcept { return server_name_; }
  void use(std::shared_ptr<const Tls> tls);
  /// Of the key that this connecting end offers (tls_secret.cpp).
  const std::array<unsigned char, 32>& key_identity() const noexcept { return identity_; }

  /// What went wrong, with what to do; empty for nothing.
  const std::string& trouble() const noexcept { return trouble_; }
  /// Whether trying again would not help, because the two ends' keys, certificates or settings differ.
  bool settings_differ() const noexcept { return settings_differ_; }
  /// A value that only the two ends of this session know (RFC 9266). Only after the handshake.
  std::array<std::byte, 32> binding() const;
  /// The cipher suite, as "TLS_AES_128_GCM_SHA256". Only after the handshake.
  std::string cipher() const;

  /// Writes as sendmsg(2) does: returns how many bytes were taken, or -1 with errno. Bytes that were taken
  /// and for which the socket had no room are kept here: see pending(). Where the socket fails, no write
  /// succeeds any more, while what the peer sent before can be read.
  ssize_t write(std::span<const iovec> parts) noexcept;
  /// Writes what is pending. Returns 0 once nothing is; else -1 with errno, which may be EAGAIN.
  int flush() noexcept { return sealed_.flush(); }
  /// Whether bytes for the socket are left over.
  bool pending() const noexcept { return sealed_.pending(); }
  std::span<const std::byte> unwritten() const noexcept { return sealed_.unwritten(); }
  /// Counts of bytes for the socket: made so far, and written.
  std::uint64_t produced() const noexcept { return sealed_.produced(); }
  std::uint64_t written() const noexcept { return sealed_.written(); }

  /// Reads as recvmsg(2) does: fills the parts as far as there are bytes. Returns fewer only where the socket
  /// has no more, or where the session has ended. 0: the peer ended the stream. -1: errno, which may be
  /// kAltered.
  ssize_t read(std::span<const iovec> parts) noexcept;
  /// Whether something can be read without new bytes on the socket: the last read stopped before all was
  /// read, or met an end or an error that it has not reported yet.
  bool buffered() const noexcept { return buffered_; }
  /// The most bytes that a session has taken from the socket and not given to read() yet.
  static constexpr std::size_t most_held() noexcept {
    return SealedBytes::kIn + kRecord + SealedBytes::kOverhead;
  }

  /// Sends these last bytes (a frame), and that nothing follows; what the socket does not take at once is
  /// pending.
  void close(std::span<const std::byte> last) noexcept;

  /// Sets after how many records of this end fresh keys are made. For tests.
  void set_records_per_key(std::uint64_t records) noexcept { records_per_key_ = records; }
  std::uint64_t key_updates() const noexcept { return key_updates_; }

 private:
  friend class Tls;
  static constexpr std::size_t kRecord = SealedBytes::kRecord;

  static int hello_seen(ssl_st* ssl, int* alert, void* unused) noexcept;

  Step handshake(SealedBytes::Reads reads);
  bool seal(const std::byte* data, std::size_t size) noexcept;
  int fail_for_good(const char* doing) noexcept;
  void explain(unsigned long reason);

  std::shared_ptr<const Tls> tls_;
  std::shared_ptr<const Tls> began_with_;  // whose BIO it uses, where use() has given the keys of another
  SealedBytes sealed_;
  ssl_st* ssl_ = nullptr;
  std::unique_ptr<std::byte[]> gathered_;  // a record whose payload lies in several places
  bool buffered_ = true;
  int failed_ = 0;        // errno for every call that follows
  int write_failed_ = 0;  // errno for every write that follows; what the peer has sent can still be read
  std::uint64_t records_ = 0, records_per_key_, key_updates_ = 0;
  std::array<unsigned char, 32> identity_{};  // of the key, connecting end
  bool waits_for_keys_ = false;
  std::optional<std::string> server_name_;
  std::string trouble_;
  bool settings_differ_ = false;
};

}  // namespace tombolo::transport::sockets
