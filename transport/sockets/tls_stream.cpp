#include "transport/sockets/tls_stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/error.h"
#include "transport/sockets/tls.h"

namespace tombolo::transport::sockets {

void name_key(std::array<unsigned char, 32>& identity);  // tls_secret.cpp

namespace {

// With one AES-GCM key at most 2^24.5 full records may be sealed (RFC 8446, 5.5). The key is changed after
// half of that.
constexpr std::uint64_t kRecordsPerKey = 11'000'000;

int alert_of(unsigned long code) noexcept {
  const int reason = ERR_GET_REASON(code);
  return reason > SSL_AD_REASON_OFFSET ? reason - SSL_AD_REASON_OFFSET : -1;
}

}  // namespace

TlsStream::TlsStream(std::shared_ptr<const Tls> tls, ssl_ctx_st* context, const bio_method_st* method,
                     int socket, bool connecting, const std::string& server_name)
    : tls_(std::move(tls)),
      sealed_(socket),
      gathered_(std::make_unique_for_overwrite<std::byte[]>(kRecord)),
      records_per_key_(kRecordsPerKey) {
  ssl_ = SSL_new(context);
  BIO* bio = ssl_ != nullptr ? BIO_new(method) : nullptr;
  if (bio == nullptr) {
    SSL_free(ssl_);
    throw std::bad_alloc();
  }
  BIO_set_data(bio, &sealed_);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_, bio, bio);
  SSL_set_app_data(ssl_, this);
  if (connecting) {
    name_key(identity_);
    SSL_set_connect_state(ssl_);
    if (!server_name.empty() && SSL_set_tlsext_host_name(ssl_, server_name.c_str()) != 1) {
      SSL_free(ssl_);
      throw std::bad_alloc();
    }
  } else {
    SSL_set_accept_state(ssl_);
  }
}

TlsStream::~TlsStream() {
  SSL_free(ssl_);
}

/// Called for a ClientHello that is whole, before anything in it has any effect.
int TlsStream::hello_seen(SSL* ssl, int*, void*) noexcept {
  auto& self = *static_cast<TlsStream*>(SSL_get_app_data(ssl));
  if (!self.waits_for_keys_) return SSL_CLIENT_HELLO_SUCCESS;
  // A list of names (RFC 6066, 3): its length, then a type (0: a host), a length and the name. We send one.
  constexpr std::size_t kBefore = 5;
  const unsigned char* list = nullptr;
  std::size_t size = 0;
  try {
    self.server_name_.emplace();
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &list, &size) == 1 && size > kBefore) {
      const std::size_t length = 256 * std::size_t{list[3]} + list[4];
      if (list[2] == TLSEXT_NAMETYPE_host_name && length == size - kBefore)
        self.server_name_->assign(reinterpret_cast<const char*>(list) + kBefore, length);
    }
  } catch (const std::bad_alloc&) {
    return SSL_CLIENT_HELLO_ERROR;
  }
  return SSL_CLIENT_HELLO_RETRY;
}

void TlsStream::use(std::shared_ptr<const Tls> tls) {
  tls->take_over(ssl_);
  began_with_ = std::exchange(tls_, std::move(tls));
  waits_for_keys_ = false;
  server_name_.reset();
}

Step TlsStream::handshake(SealedBytes::Reads reads) {
  sealed_.begin_call(reads);
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  const int why = result == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl_, result);
  const unsigned long code = ERR_peek_error();
  // The alert has to reach the peer too, so that its error names the reason.
  const bool flushed = flush() == 0;
  const int flush_error = flushed ? 0 : errno;
  if (why == SSL_ERROR_NONE && flushed) return Step::kDone;
  if (flush_error != 0 && flush_error != EAGAIN && flush_error != EWOULDBLOCK) sealed_.set_error(flush_error);
  if (sealed_.error() != 0) {
    trouble_ = errno_text(sealed_.error());
    return Step::kError;
  }
  if (why == SSL_ERROR_NONE || why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ||
      why == SSL_ERROR_WANT_CLIENT_HELLO_CB)
    return Step::kAgain;
  if (sealed_.ended()) return Step::kEnded;
  explain(code);
  ERR_clear_error();
  return Step::kError;
}

void TlsStream::explain(unsigned long code) {
  const TlsOptions& files = tls_->options();
  settings_differ_ = true;
  switch (alert_of(code)) {
    case SSL_AD_UNKNOWN_CA:
      trouble_ = fmt::format("the peer does not know the authority that signed this end's certificate '{}'",
                             files.certificate);
      return;
    case SSL_AD_CERTIFICATE_EXPIRED:
      trouble_ = fmt::format("the peer says that this end's certificate '{}' has expired", files.certificate);
      return;
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_CERTIFICATE_REVOKED:
      trouble_ = fmt::format("the peer does not accept this end's certificate '{}'", files.certificate);
      return;
    case SSL_AD_CERTIFICATE_REQUIRED:
    case SSL_AD_HANDSHAKE_FAILURE:
      trouble_ =
          "the peer wants another proof: use certificates (TOMBOLO_TLS_CERTIFICATE) on every rank or "
          "on none";
      return;
    case SSL_AD_ILLEGAL_PARAMETER:
    case SSL_AD_DECRYPT_ERROR:
      if (tls_->by_certificate()) break;
      trouble_ = fmt::format(
          "the two ends hold different secrets: {}; or another process than the peer's uses its address and "
          "port "
          "now: see whether the peer's process still runs",
          tls_->secret_hint());
      return;
    case -1:
      switch (ERR_GET_REASON(code)) {
        case SSL_R_BINDER_DOES_NOT_VERIFY:
          trouble_ = fmt::format(
              "it holds another secret, or means another process that had this address and port: {}",
              tls_->secret_hint());
          return;
        case SSL_R_CERTIFICATE_VERIFY_FAILED:
          if (!tls_->by_certificate()) {
            trouble_ =
                "the peer shows a certificate, and this end has none to compare with: use certificates "
                "(TOMBOLO_TLS_CERTIFICATE) on every rank or on none";
          } else {
            trouble_ =
                fmt::format("the peer's certificate is not accepted: {} (authority: '{}')",
                            X509_verify_cert_error_string(SSL_get_verify_result(ssl_)), files.authority);
          }
          return;
        case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        case SSL_R_NO_SHARED_CIPHER:
        case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
          trouble_ =
              "the peer proves itself in another way: use certificates (TOMBOLO_TLS_CERTIFICATE) on "
              "every rank or on none";
          return;
        default:
          break;
      }
      break;
    default:
      break;
  }
  // The record was damaged on the way, or the peer speaks another protocol.
  settings_differ_ = false;
  const char* text = ERR_reason_error_string(code);
  trouble_ = text != nullptr ? text : "no reason known";
}

std::array<std::byte, 32> TlsStream::binding() const {
  constexpr std::string_view kLabel = "EXPORTER-Channel-Binding";
  std::array<std::byte, 32> value;
  const unsigned char none = 0;
  if (SSL_export_keying_material(ssl_, reinterpret_cast<unsigned char*>(value.data()), value.size(),
                                 kLabel.data(), kLabel.size(), &none, 0, 1) != 1) {
    fail(Cause::kInternal, "a TLS session gave no binding");
  }
  return value;
}

std::string TlsStream::cipher() const {
  return SSL_get_cipher_name(ssl_);
}

int TlsStream::fail_for_good(const char* doing) noexcept {
  failed_ = sealed_.error() != 0 ? sealed_.error() : kAltered;
  buffered_ = true;
  try {
    if (sealed_.error() != 0)
      trouble_ = errno_text(sealed_.error());
    else
      explain(ERR_peek_error());
    if (!settings_differ_) trouble_ = fmt::format("{} a TLS record: {}", doing, trouble_);
  } catch (const std::bad_alloc&) {
    // The caller gets the errno, which says enough.
  }
  ERR_clear_error();
  errno = failed_;
  return -1;
}

bool TlsStream::seal(const std::byte* data, std::size_t size) noexcept {
  if (records_ >= records_per_key_) {
    records_ = 0;
    ++key_updates_;
    if (SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return false;
  }
  ++records_;
  std::size_t sealed = 0;
  return SSL_write_ex(ssl_, data, size, &sealed) == 1 && sealed == size;
}

ssize_t TlsStream::write(std::span<const iovec> parts) noexcept {
  if (const int failed = failed_ != 0 ? failed_ : write_failed_; failed != 0) {
    errno = failed;
    return -1;
  }
  if (pending() && flush() != 0) return -1;
  ERR_clear_error();
  std::size_t taken = 0;
  auto part = parts.begin();
  std::size_t at = 0;  // in it
  const auto skip_ended = [&] {
    while (part != parts.end() && at == part->iov_len) ++part, at = 0;
  };
  skip_ended();
  while (part != parts.end()) {
    if (!sealed_.has_room() && flush() != 0) break;
    // A record is sealed from one place where all of it lies there; otherwise it is put together first.
    const std::byte* record = gathered_.get();
    std::size_t size = 0;
    if (part->iov_len - at >= kRecord) {
      record = static_cast<const std::byte*>(part->iov_base) + at;
      size = kRecord;
      at += kRecord;
      skip_ended();
    } else {
      while (part != parts.end() && size < kRecord) {
        const std::size_t count = std::min(part->iov_len - at, kRecord - size);
        std::memcpy(gathered_.get() + size, static_cast<const std::byte*>(part->iov_base) + at, count);
        size += count;
        at += count;
        skip_ended();
      }
    }
    if (!seal(record, size)) return fail_for_good("write");
    taken += size;
  }
  if (flush() != 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
    write_failed_ = errno;
    return -1;
  }
  return static_cast<ssize_t>(taken);
}

ssize_t TlsStream::read(std::span<const iovec> parts) noexcept {
  if (failed_ != 0) {
    errno = failed_;
    return -1;
  }
  sealed_.begin_call(SealedBytes::Reads::kMuch);
  std::size_t total = 0;
  for (const iovec& part : parts) {
    std::size_t at = 0;
    while (at < part.iov_len) {
      ERR_clear_error();
      std::size_t got = 0;
      const int result =
          SSL_read_ex(ssl_, static_cast<std::byte*>(part.iov_base) + at, part.iov_len - at, &got);
      if (result == 1) {
        at += got;
        total += got;
        continue;
      }
      const int why = SSL_get_error(ssl_, result);
      if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
        buffered_ = false;
        if (total != 0) return static_cast<ssize_t>(total);
        errno = EAGAIN;
        return -1;
      }
      // A stream that ends without a close_notify has ended too: our own goodbye is what ends a connection in
      // order.
      buffered_ = true;
      const bool over = why == SSL_ERROR_ZERO_RETURN || (sealed_.ended() && sealed_.error() == 0);
      if (!over) fail_for_good("read");
      if (total != 0) return static_cast<ssize_t>(total);  // the next call reports the end or the error
      if (!over) errno = failed_;
      return over ? 0 : -1;
    }
  }
  buffered_ = true;
  return static_cast<ssize_t>(total);
}

void TlsStream::close(std::span<const std::byte> last) noexcept {
  if (failed_ != 0 || write_failed_ != 0) return;
  ERR_clear_error();
  sealed_.use_reserve();
  if (seal(last.data(), last.size())) SSL_shutdown(ssl_);
  ERR_clear_error();
  flush();
}

}  // namespace tombolo::transport::sockets
