// What listeners and connecting ends need to know about this process, whatever carries the bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "transport/backend.h"
#include "transport/observe/meters.h"
#include "transport/sockets/secret.h"
#include "transport/sockets/tls.h"
#include "transport/transport.h"

namespace tombolo::transport::bootstrap {

/// Immutable once made. It is shared by everything that a router has made, which may outlive the router.
struct Local {
  std::string host;
  std::uint32_t cluster = 0;  ///< Endpoint::cluster_id
  Secret secret;
  std::string secret_hint;  ///< what to do where the two ends' secrets differ
  std::vector<std::shared_ptr<Backend>> backends;
  Duration idle_timeout{};                  ///< as in TcpOptions; not zero
  int traffic_class = -1;                   ///< as in RouterOptions
  Overlong overlong = Overlong::kError;     ///< as in RouterOptions
  std::shared_ptr<const sockets::Tls> tls;  ///< null where TOMBOLO_TLS is off
  bool failover = false;                    ///< as in RouterOptions
  std::shared_ptr<Meters> meters;
  Log log;
  const Clock* clock = nullptr;

  /// The backend of that carrier; null where this process cannot use it.
  Backend* backend_of(Carrier carrier) const noexcept {
    for (const auto& backend : backends)
      if (backend->carrier() == carrier) return backend.get();
    return nullptr;
  }
  TlsUse tls_use() const noexcept { return tls ? tls->options().use : TlsUse::kOff; }
  /// Whether a connection with a process of that cluster must be encrypted.
  bool wants_tls(Carrier carrier, std::uint32_t peer_cluster) const noexcept {
    return tls && carrier == Carrier::kTcp && (tls_use() == TlsUse::kOn || peer_cluster != cluster);
  }
  /// Whether the carrier may be used: not where what leaves the cluster must be encrypted and it cannot do
  /// that.
  bool may_carry(Carrier carrier, std::uint32_t peer_cluster) const noexcept {
    return !tls || carrier == Carrier::kTcp || carrier == Carrier::kShm || peer_cluster == cluster;
  }
};

}  // namespace tombolo::transport::bootstrap
