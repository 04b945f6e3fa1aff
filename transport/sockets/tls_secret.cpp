// TLS keys from the shared secret: an external pre-shared key (RFC 8446, 4.2.11) for each session.
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "transport/sockets/tls.h"
#include "transport/sockets/tls_stream.h"

namespace tombolo::transport::sockets {
namespace {

// The identity of a key: these letters, then a random number.
constexpr std::string_view kIdentity = "tombolo secret 1";
constexpr std::string_view kPurpose = "tombolo tls 1.3 external psk";

using Key = std::array<unsigned char, 32>;

/// HKDF (RFC 5869) with SHA-256: the secret, salted with the identity.
bool derive(const Secret& secret, std::span<const unsigned char> identity, Key& key) noexcept {
  EVP_KDF* kdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  EVP_KDF_CTX* context = kdf != nullptr ? EVP_KDF_CTX_new(kdf) : nullptr;
  EVP_KDF_free(kdf);
  if (context == nullptr) return false;
  char digest[] = "SHA256";
  // libcrypto's parameters take non-const pointers to what it only reads.
  auto* material = const_cast<std::byte*>(secret.bytes().data());
  auto* salt = const_cast<unsigned char*>(identity.data());
  auto* purpose = const_cast<char*>(kPurpose.data());
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, material, Secret::kBytes),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt, identity.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, purpose, kPurpose.size()),
      OSSL_PARAM_construct_end()};
  const bool derived = EVP_KDF_derive(context, key.data(), key.size(), parameters) == 1;
  EVP_KDF_CTX_free(context);
  return derived;
}

/// The session from which the two ends begin; null where that cannot be made.
SSL_SESSION* session_for(SSL* ssl, const Secret& secret, std::span<const unsigned char> identity) noexcept {
  // The key goes with a digest, SHA-256, which all suites in use share; the suite itself is negotiated.
  constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
  Key key;
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kAes128GcmSha256);
  SSL_SESSION* session = cipher != nullptr && derive(secret, identity, key) ? SSL_SESSION_new() : nullptr;
  if (session != nullptr &&
      (SSL_SESSION_set1_master_key(session, key.data(), key.size()) != 1 ||
       SSL_SESSION_set_cipher(session, cipher) != 1 ||
       SSL_SESSION_set1_id_context(session, kTlsSessions.data(), kTlsSessions.size()) != 1 ||
       SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1)) {
    SSL_SESSION_free(session);
    session = nullptr;
  }
  OPENSSL_cleanse(key.data(), key.size());
  return session;
}

const Tls& tls_of(SSL* ssl) noexcept {
  return *static_cast<const Tls*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
}

int offer_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, std::size_t* length,
              SSL_SESSION** session) {
  const auto& name = static_cast<const TlsStream*>(SSL_get_app_data(ssl))->key_identity();
  *session = session_for(ssl, tls_of(ssl).secret(), name);
  if (*session == nullptr) return 0;
  *identity = name.data();
  *length = name.size();
  return 1;
}

int find_key(SSL* ssl, const unsigned char* identity, std::size_t length, SSL_SESSION** session) {
  *session = nullptr;
  // Any number is accepted: a peer without the secret fails at the binder, which is computed with the key.
  if (length == sizeof(std::array<unsigned char, 32>) &&
      std::equal(kIdentity.begin(), kIdentity.end(), identity)) {
    *session = session_for(ssl, tls_of(ssl).secret(), {identity, length});
  }
  return 1;
}

}  // namespace

void name_key(std::array<unsigned char, 32>& identity) {
  static_assert(kIdentity.size() == 16);
  std::ranges::copy(kIdentity, identity.begin());
  random_bytes(std::as_writable_bytes(std::span(identity)).subspan(kIdentity.size()));
}

void Tls::take_over(SSL* ssl) const {
  // All routers' settings are the same but for keys, certificates and authorities, which come with the
  // context.
  if (SSL_set_SSL_CTX(ssl, context_) == nullptr) fail(Cause::kSystem, "a TLS session did not take its keys");
  SSL_set_psk_find_session_callback(ssl, by_certificate() ? nullptr : find_key);
}

void Tls::use_secret() {
  SSL_CTX_set_app_data(context_, this);
  SSL_CTX_set_psk_use_session_callback(context_, offer_key);
  SSL_CTX_set_psk_find_session_callback(context_, find_key);
}

}  // namespace tombolo::transport::sockets
