// The shared secret that authenticates connections. It reaches the ranks in the bootstrap: through the
// engine's store, or in NCCL's handle.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tombolo::transport {

class Secret {
 public:
  static constexpr std::size_t kBytes = 16;

  /// Makes a secret from the kernel's generator. Throws kSystem.
  static Secret random();
  /// Makes a secret from any text (TOMBOLO_SECRET) by scrypt (RFC 7914; N = 2^14, r = 8, p = 1), which takes
  /// about 50 ms and 16 MiB the first time in a process: who tries texts has to pay as much for each. The
  /// salt is fixed, since the text is all that the ranks share. It makes OpenSSL start, which keeps the
  /// library that contains it in memory; the NCCL plugin has random secrets only. Thread-safe. Throws
  /// kSystem.
  static Secret from_text(std::string_view text);
  /// Makes a secret from the bytes() of another.
  static Secret from_bytes(std::span<const std::byte, kBytes> bytes);
  std::span<const std::byte, kBytes> bytes() const noexcept { return bytes_; }

 private:
  std::array<std::byte, kBytes> bytes_{};
};

/// Fills `bytes` from the kernel's generator. Throws kSystem.
void random_bytes(std::span<std::byte> bytes);

/// HMAC-SHA256 under the secret.
std::array<std::byte, 32> authenticate(const Secret& secret, std::span<const std::byte> message);
/// Compares in constant time, so that the time reveals nothing of where they differ.
bool equal(std::span<const std::byte> left, std::span<const std::byte> right) noexcept;

}  // namespace tombolo::transport
