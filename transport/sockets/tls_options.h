// Whether and how streams are encrypted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tombolo::transport {

/// Which connections over TCP are encrypted.
enum class TlsUse : std::uint8_t { kOff, kBetweenClusters, kOn };

/// "off", "between-clusters", "on": as TOMBOLO_TLS says it.
std::string_view name_of(TlsUse use) noexcept;

/// Options of TLS 1.3. Both ends prove themselves by the shared secret; where files are given, by
/// certificates as well.
struct TlsOptions {
  TlsUse use = TlsUse::kOff;
  /// Paths of PEM files: this process's certificate (with the chain up to the authority), its key, and the
  /// authority that signed all certificates of the job. Either all three are given or none.
  std::string certificate = {}, key = {}, authority = {};
  /// The options that these variables set: TOMBOLO_TLS, TOMBOLO_TLS_CERTIFICATE, TOMBOLO_TLS_KEY and
  /// TOMBOLO_TLS_AUTHORITY.
  static TlsOptions from_environment();
};

}  // namespace tombolo::transport
