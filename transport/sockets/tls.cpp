#include "transport/sockets/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cerrno>
#include <fstream>

#include "base/error.h"
#include "transport/sockets/openssl.h"
#include "transport/sockets/sealed_bytes.h"
#include "transport/sockets/tls_stream.h"

namespace tombolo::transport {

std::string_view name_of(TlsUse use) noexcept {
  switch (use) {
    case TlsUse::kOff:
      return "off";
    case TlsUse::kBetweenClusters:
      return "between-clusters";
    case TlsUse::kOn:
      return "on";
  }
  return "?";
}

namespace sockets {
namespace {

// `openssl speed -bytes 16384 -evp ...` on one core of an EPYC with AES and AVX-512: 4.66 GB/s with
// AES-128-GCM, 4.40 with AES-256-GCM, 4.41 with ChaCha20-Poly1305. Without AES instructions only the last is
// fast.
constexpr const char* kWithAes = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr const char* kWithoutAes = "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";

bool has_aes() noexcept {
#if defined(__x86_64__)
  return __builtin_cpu_supports("aes") != 0;
#else
  return true;
#endif
}

std::string openssl_reason() {
  const unsigned long code = ERR_peek_last_error();
  const char* text = ERR_reason_error_string(code);
  ERR_clear_error();
  return text != nullptr ? text : "OpenSSL gives no reason";
}

void check_readable(const char* parameter, const std::string& file) {
  if (file.empty()) {
    fail(Cause::kInvalidUsage,
         "{} is not set: TOMBOLO_TLS_CERTIFICATE, TOMBOLO_TLS_KEY and TOMBOLO_TLS_AUTHORITY belong together",
         parameter);
  }
  errno = 0;
  std::ifstream stream(file);
  if (!stream || stream.peek() == std::ifstream::traits_type::eof()) {
    fail(Cause::kInvalidUsage, "{}='{}': cannot be read: {}", parameter, file,
         errno != 0 ? errno_text(errno) : "it is empty");
  }
}

void check_times(const char* parameter, const std::string& file, const X509* certificate) {
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0)
    fail(Cause::kInvalidUsage, "{}='{}': the certificate has expired", parameter, file);
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0)
    fail(Cause::kInvalidUsage, "{}='{}': the certificate is not valid yet", parameter, file);
}

}  // namespace

Tls::Tls(const TlsOptions& options, const Secret& secret, std::string secret_hint)
    : options_(options), secret_(secret), secret_hint_(std::move(secret_hint)) {
  start_openssl();
  context_ = SSL_CTX_new(TLS_method());
  method_ = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "tombolo stream");
  if (context_ == nullptr || method_ == nullptr) fail(Cause::kSystem, "set up TLS: {}", openssl_reason());
  BIO_meth_set_write(method_, SealedBytes::put);
  BIO_meth_set_read(method_, SealedBytes::get);
  BIO_meth_set_ctrl(method_, SealedBytes::control);
  SSL_CTX_set_client_hello_cb(context_, TlsStream::hello_seen, nullptr);
  SSL_CTX_set_min_proto_version(context_, TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(context_, TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(context_, has_aes() ? kWithAes : kWithoutAes);
  SSL_CTX_set1_groups_list(context_, "X25519:P-256");
  // A broken stream gets a fresh session, so nothing is kept for resumption.
  SSL_CTX_set_options(context_, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context_, 0);
  // OpenSSL asks for this where peers are verified, though the only sessions are those of use_secret().
  SSL_CTX_set_session_id_context(context_, kTlsSessions.data(), kTlsSessions.size());
  SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  try {
    if (options_.certificate.empty() && options_.key.empty() && options_.authority.empty())
      use_secret();
    else
      use_files();
  } catch (...) {
    SSL_CTX_free(context_);
    BIO_meth_free(method_);
    throw;
  }
}

Tls::~Tls() {
  SSL_CTX_free(context_);
  BIO_meth_free(method_);
}

void Tls::use_files() {
  constexpr const char* kCertificate = "TOMBOLO_TLS_CERTIFICATE";
  constexpr const char* kKey = "TOMBOLO_TLS_KEY";
  constexpr const char* kAuthority = "TOMBOLO_TLS_AUTHORITY";
  check_readable(kCertificate, options_.certificate);
  check_readable(kKey, options_.key);
  check_readable(kAuthority, options_.authority);
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context_, options_.certificate.c_str()) != 1) {
    fail(Cause::kInvalidUsage, "{}='{}': no PEM certificate: {}", kCertificate, options_.certificate,
         openssl_reason());
  }
  if (SSL_CTX_load_verify_file(context_, options_.authority.c_str()) != 1) {
    fail(Cause::kInvalidUsage, "{}='{}': no PEM certificate: {}", kAuthority, options_.authority,
         openssl_reason());
  }
  X509* mine = SSL_CTX_get0_certificate(context_);
  check_times(kCertificate, options_.certificate, mine);
  if (SSL_CTX_use_PrivateKey_file(context_, options_.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    const bool other = ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH;
    const std::string reason = openssl_reason();
    if (other) {
      fail(Cause::kInvalidUsage, "{}='{}': the key does not belong to the certificate in {}='{}'", kKey,
           options_.key, kCertificate, options_.certificate);
    }
    fail(Cause::kInvalidUsage, "{}='{}': no PEM private key: {}", kKey, options_.key, reason);
  }
  // Peers will not accept a certificate that this end's own authority did not sign.
  X509_STORE_CTX* check = X509_STORE_CTX_new();
  STACK_OF(X509)* chain = nullptr;
  SSL_CTX_get0_chain_certs(context_, &chain);
  int problem = X509_V_ERR_OUT_OF_MEM;
  if (check != nullptr && X509_STORE_CTX_init(check, SSL_CTX_get_cert_store(context_), mine, chain) == 1) {
    problem = X509_verify_cert(check) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(check);
  }
  X509_STORE_CTX_free(check);
  ERR_clear_error();
  if (problem != X509_V_OK) {
    fail(Cause::kInvalidUsage, "{}='{}' is not signed by the authority in {}='{}': {}", kCertificate,
         options_.certificate, kAuthority, options_.authority, X509_verify_cert_error_string(problem));
  }
}

std::unique_ptr<TlsStream> Tls::begin(int socket, bool connecting, const std::string& server_name) const {
  return std::make_unique<TlsStream>(shared_from_this(), context_, method_, socket, connecting, server_name);
}

std::string Tls::description() const {
  return by_certificate() ? "TLS 1.3 by certificates" : "TLS 1.3 by the shared secret";
}

}  // namespace sockets
}  // namespace tombolo::transport
