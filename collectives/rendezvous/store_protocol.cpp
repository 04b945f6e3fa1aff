#include "collectives/rendezvous/store_protocol.h"

#include <cstring>

#include "base/error.h"
#include "transport/bytes.h"

namespace tombolo::collectives::store {
namespace {

using transport::load_little_endian;
using transport::store_little_endian;

constexpr char kHelloMagic[4] = {'T', 'M', 'B', 'S'};
constexpr char kProofMagic[4] = {'T', 'M', 'B', 'C'};

/// The parts of what is proven have fixed lengths.
Mac prove(const transport::Secret& secret, std::string_view side, const Nonce& first, const Nonce& second,
          std::span<const std::byte> more = {}) {
  std::vector<std::byte> message;
  for (const auto part : {std::as_bytes(std::span(side)), std::span<const std::byte>(first),
                          std::span<const std::byte>(second), more})
    message.insert(message.end(), part.begin(), part.end());
  return transport::authenticate(secret, message);
}

}  // namespace

std::vector<std::byte> encode(Kind kind, std::uint32_t request, std::string_view key,
                              std::span<const std::byte> value) {
  if (key.size() > kMaxKey || value.size() > kMaxValue) {
    fail(Cause::kInvalidUsage, "store: key of {} bytes with a value of {} bytes; at most {} and {}",
         key.size(), value.size(), kMaxKey, kMaxValue);
  }
  const std::size_t body = kHeaderBytes + key.size() + value.size();
  std::vector<std::byte> frame(kLengthBytes + body);
  std::byte* to = frame.data();
  store_little_endian(to, static_cast<std::uint32_t>(body));
  to[kLengthBytes] = static_cast<std::byte>(kind);
  store_little_endian(to + kLengthBytes + 1, request);
  store_little_endian(to + kLengthBytes + 5, static_cast<std::uint16_t>(key.size()));
  to += kLengthBytes + kHeaderBytes;
  if (!key.empty()) std::memcpy(to, key.data(), key.size());
  if (!value.empty()) std::memcpy(to + key.size(), value.data(), value.size());
  return frame;
}

std::array<std::byte, kLengthBytes + kHeaderBytes> encode_answer_head(Kind kind, std::uint32_t request,
                                                                      std::size_t value_bytes) noexcept {
  std::array<std::byte, kLengthBytes + kHeaderBytes> head{};  // the key is empty
  store_little_endian(head.data(), static_cast<std::uint32_t>(kHeaderBytes + value_bytes));
  head[kLengthBytes] = static_cast<std::byte>(kind);
  store_little_endian(head.data() + kLengthBytes + 1, request);
  return head;
}

std::uint32_t read_length(std::span<const std::byte, kLengthBytes> bytes) noexcept {
  return load_little_endian<std::uint32_t>(bytes.data());
}

Frame parse(std::span<const std::byte> body) {
  if (body.size() < kHeaderBytes) fail(Cause::kRemote, "store: frame of {} bytes is too short", body.size());
  const std::size_t key_bytes = load_little_endian<std::uint16_t>(body.data() + 5);
  if (key_bytes > kMaxKey || kHeaderBytes + key_bytes > body.size()) {
    fail(Cause::kRemote, "store: key of {} bytes in a frame of {}", key_bytes, body.size());
  }
  Frame frame;
  frame.kind = static_cast<Kind>(body[0]);
  frame.request = load_little_endian<std::uint32_t>(body.data() + 1);
  frame.key = {reinterpret_cast<const char*>(body.data() + kHeaderBytes), key_bytes};
  frame.value = body.subspan(kHeaderBytes + key_bytes);
  return frame;
}

std::array<std::byte, kHelloBytes> make_hello(const Nonce& server) {
  std::array<std::byte, kHelloBytes> hello;
  std::memcpy(hello.data(), kHelloMagic, 4);
  store_little_endian(hello.data() + 4, kVersion);
  std::memcpy(hello.data() + 6, server.data(), kNonceBytes);
  return hello;
}

Nonce read_hello(std::span<const std::byte, kHelloBytes> hello) {
  if (std::memcmp(hello.data(), kHelloMagic, 4) != 0)
    fail(Cause::kRemote, "what answers is not a Tombolo store");
  if (const auto version = load_little_endian<std::uint16_t>(hello.data() + 4); version != kVersion) {
    fail(Cause::kRemote, "the store speaks version {}, this build version {}", version, kVersion);
  }
  Nonce nonce;
  std::memcpy(nonce.data(), hello.data() + 6, kNonceBytes);
  return nonce;
}

std::array<std::byte, kProofBytes> make_proof(const transport::Secret& secret, const Nonce& server,
                                              const Nonce& client) {
  std::array<std::byte, kProofBytes> proof;
  const Mac mac = prove(secret, "client", server, client);
  std::memcpy(proof.data(), kProofMagic, 4);
  std::memcpy(proof.data() + 4, client.data(), kNonceBytes);
  std::memcpy(proof.data() + 4 + kNonceBytes, mac.data(), kMacBytes);
  return proof;
}

bool check_proof(const transport::Secret& secret, const Nonce& server,
                 std::span<const std::byte, kProofBytes> proof, Nonce& client) noexcept {
  std::memcpy(client.data(), proof.data() + 4, kNonceBytes);
  return std::memcmp(proof.data(), kProofMagic, 4) == 0 &&
         transport::equal(prove(secret, "client", server, client), proof.subspan<4 + kNonceBytes>());
}

std::array<std::byte, kVerdictBytes> make_verdict(const transport::Secret& secret, const Nonce& server,
                                                  const Nonce& client,
                                                  const std::optional<StoreId>& accepted_by) {
  std::array<std::byte, kVerdictBytes> verdict{};
  if (!accepted_by) return verdict;  // a client without the secret gets no proof of the server
  const Mac mac = prove(secret, "server", client, server, *accepted_by);
  verdict[0] = std::byte{1};
  std::memcpy(verdict.data() + 1, accepted_by->data(), accepted_by->size());
  std::memcpy(verdict.data() + 1 + accepted_by->size(), mac.data(), kMacBytes);
  return verdict;
}

std::optional<StoreId> check_verdict(const transport::Secret& secret, const Nonce& server,
                                     const Nonce& client, std::span<const std::byte, kVerdictBytes> verdict) {
  StoreId store;
  std::memcpy(store.data(), verdict.data() + 1, store.size());
  const Mac mac = prove(secret, "server", client, server, store);
  if (verdict[0] != std::byte{1} || !transport::equal(mac, verdict.last<kMacBytes>())) return std::nullopt;
  return store;
}

Nonce random_nonce() {
  Nonce nonce;
  transport::random_bytes(nonce);
  return nonce;
}

}  // namespace tombolo::collectives::store
