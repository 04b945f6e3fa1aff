// What the store and its clients say to each other. All numbers are little-endian.
//
//   server -> client  "TMBS", version (2 bytes), server nonce (32)
//   client -> server  "TMBC", client nonce (32), HMAC(secret, "client" + server nonce + client nonce)
//   server -> client  accepted (1 byte: 1 or 0), which store it is (16), HMAC(secret, "server" + client nonce
//                     + server nonce + which store)
//   then frames:      length of the rest (4), kind (1), request (4), key length (2), key, value
//
// Answers carry the number of their request, so that a client may stop waiting for one and make another
// request; the one before is then not answered any more, unless its answer is under way.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/rendezvous/store_id.h"
#include "transport/sockets/secret.h"

namespace tombolo::collectives::store {

enum class Kind : std::uint8_t {
  kSet = 1,
  kGet = 2,     ///< answered once the key is there
  kTryGet = 3,  ///< answered at once
  kClaim = 4,
  kAdd = 5,            ///< value: 8 bytes
  kHold = 6,           ///< as kSet, until this client's connection ends; one key per client
  kValue = 16,         ///< the answer
  kAbsent = 17,        ///< to kTryGet
  kRefused = 18,       ///< value: why
  kServerClosing = 19  ///< the server closes on purpose
};

/// The longest value is a rank's report to tombolo doctor, with 300 bytes about each other rank.
constexpr std::size_t kMaxValue = std::size_t{4} << 20;
constexpr std::size_t kMaxKey = 1024;
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kHeaderBytes = 1 + 4 + 2;  ///< after the length
constexpr std::size_t kMaxFrame = kHeaderBytes + kMaxKey + kMaxValue;
/// Also says how a secret comes from a text: ends that differ in it could not tell that from another text.
constexpr std::uint16_t kVersion = 4;

constexpr std::size_t kNonceBytes = 32;
constexpr std::size_t kMacBytes = 32;
constexpr std::size_t kHelloBytes = 4 + 2 + kNonceBytes;
constexpr std::size_t kProofBytes = 4 + kNonceBytes + kMacBytes;
constexpr std::size_t kVerdictBytes = 1 + std::tuple_size_v<StoreId> + kMacBytes;

using Nonce = std::array<std::byte, kNonceBytes>;
using Mac = std::array<std::byte, kMacBytes>;

struct Frame {
  Kind kind = Kind::kValue;
  std::uint32_t request = 0;
  std::string_view key;              ///< into the parsed bytes
  std::span<const std::byte> value;  ///< into the parsed bytes
};

/// One message, with its length in front.
std::vector<std::byte> encode(Kind kind, std::uint32_t request, std::string_view key,
                              std::span<const std::byte> value);
/// What stands before the value in an answer to `request`.
std::array<std::byte, kLengthBytes + kHeaderBytes> encode_answer_head(Kind kind, std::uint32_t request,
                                                                      std::size_t value_bytes) noexcept;
std::uint32_t read_length(std::span<const std::byte, kLengthBytes> bytes) noexcept;
/// `body` is what follows the length. Throws kRemote where lengths do not add up.
Frame parse(std::span<const std::byte> body);

std::array<std::byte, kHelloBytes> make_hello(const Nonce& server);
/// Throws kRemote ("not a Tombolo store", "version 1, this build version 2"); the caller adds which store.
Nonce read_hello(std::span<const std::byte, kHelloBytes> hello);
std::array<std::byte, kProofBytes> make_proof(const transport::Secret& secret, const Nonce& server,
                                              const Nonce& client);
/// Whether the client knows the secret; its nonce.
bool check_proof(const transport::Secret& secret, const Nonce& server,
                 std::span<const std::byte, kProofBytes> proof, Nonce& client) noexcept;
/// `accepted_by`: nothing where the client is rejected.
std::array<std::byte, kVerdictBytes> make_verdict(const transport::Secret& secret, const Nonce& server,
                                                  const Nonce& client,
                                                  const std::optional<StoreId>& accepted_by);
/// Which store has accepted the client; nothing where none has that knows the secret.
std::optional<StoreId> check_verdict(const transport::Secret& secret, const Nonce& server,
                                     const Nonce& client, std::span<const std::byte, kVerdictBytes> verdict);
Nonce random_nonce();

}  // namespace tombolo::collectives::store
