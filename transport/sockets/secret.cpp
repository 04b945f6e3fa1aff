// SHA-256 comes from libcrypto, but HMAC (RFC 2104) is built on it here: libcrypto's own HMAC goes through
// its provider machinery, which reads the system's openssl.cnf and pins the library that contains it in
// memory, while the NCCL plugin must be unloaded by dlclose.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "transport/sockets/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <mutex>

#include "base/error.h"
#include "transport/kernel.h"
#include "transport/sockets/openssl.h"

namespace tombolo::transport {
namespace {

constexpr std::size_t kBlock = 64;
using Digest = std::array<std::byte, 32>;

constexpr std::string_view kSalt = "tombolo secret of a job, 2";
constexpr std::uint64_t kScryptCost = 1 << 14, kScryptBlocks = 8;
constexpr std::uint64_t kScryptMemory = std::uint64_t{32} << 20;  // at most; it needs a little more than half

class Sha256 {
 public:
  Sha256() { SHA256_Init(&context_); }
  ~Sha256() { OPENSSL_cleanse(&context_, sizeof context_); }
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  Sha256& add(std::span<const std::byte> bytes) {
    SHA256_Update(&context_, bytes.data(), bytes.size());
    return *this;
  }
  Digest finish() {
    Digest digest;
    SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &context_);
    return digest;
  }

 private:
  SHA256_CTX context_;
};

}  // namespace

Secret Secret::random() {
  Secret secret;
  random_bytes(secret.bytes_);
  return secret;
}

Secret Secret::from_text(std::string_view text) {
  // The texts themselves are not kept.
  static std::mutex mutex;
  static std::map<Digest, Secret> known;
  const Digest digest = Sha256().add(std::as_bytes(std::span(text))).finish();
  const std::lock_guard lock(mutex);
  if (auto found = known.find(digest); found != known.end()) return found->second;
  sockets::start_openssl();
  Secret secret;
  if (EVP_PBE_scrypt(text.data() != nullptr ? text.data() : "", text.size(),
                     reinterpret_cast<const unsigned char*>(kSalt.data()), kSalt.size(), kScryptCost,
                     kScryptBlocks, 1, kScryptMemory, reinterpret_cast<unsigned char*>(secret.bytes_.data()),
                     kBytes) != 1) {
    fail(Cause::kSystem,
         "make a secret from a text of {} bytes: OpenSSL's scrypt failed; are {} MiB of memory free?",
         text.size(), kScryptMemory >> 20);
  }
  known.emplace(digest, secret);
  return secret;
}

Secret Secret::from_bytes(std::span<const std::byte, kBytes> bytes) {
  Secret secret;
  std::ranges::copy(bytes, secret.bytes_.begin());
  return secret;
}

void random_bytes(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t got = kernel().getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(errno, "getrandom");
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

std::array<std::byte, 32> authenticate(const Secret& secret, std::span<const std::byte> message) {
  std::array<std::byte, kBlock> inner, outer;
  inner.fill(std::byte{0x36});
  outer.fill(std::byte{0x5c});
  for (std::size_t i = 0; i < Secret::kBytes; ++i) {
    inner[i] ^= secret.bytes()[i];
    outer[i] ^= secret.bytes()[i];
  }
  Digest first = Sha256().add(inner).add(message).finish();
  Digest digest = Sha256().add(outer).add(first).finish();
  OPENSSL_cleanse(inner.data(), inner.size());
  OPENSSL_cleanse(outer.data(), outer.size());
  return digest;
}

bool equal(std::span<const std::byte> left, std::span<const std::byte> right) noexcept {
  return left.size() == right.size() && CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

}  // namespace tombolo::transport
