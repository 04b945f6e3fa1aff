// What all TCP connections of a router share: its options, and what its streams may hand to each NIC.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "transport/tcp/options.h"
#include "transport/tcp/path/congestion.h"
#include "transport/tcp/path/pacing.h"
#include "transport/tcp/path/rate_limit.h"

namespace tombolo::transport::tcp {

/// Immutable once made. The connections share it, and may outlive the router.
struct TcpSettings {
  /// Throws kInvalidUsage for options that are out of range.
  TcpSettings(const TcpOptions& options, const std::vector<NicLimit>& limits, const Log& log);

  TcpOptions options;  ///< resolved: replay_bytes is set
  std::map<std::string, std::shared_ptr<NicRateLimit>, std::less<>> limits;  ///< by NIC name
  std::map<std::string, std::shared_ptr<NicPacing>, std::less<>> pacing;     ///< by NIC name
  Congestion congestion;

  /// The limit of that NIC; null for a NIC without one.
  std::shared_ptr<NicRateLimit> limit_of(const std::string& nic) const;
  /// The most payload bytes per chunk of a connection with so many streams.
  std::size_t chunk_of(std::size_t streams) const noexcept;
  /// How many bytes one of so many streams takes on before it has written them.
  std::size_t backlog_of(std::size_t streams) const noexcept;
  /// Limits what waits in the kernel for one of a connection's `streams` streams; throws kSystem.
  void limit_buffers(int socket, std::size_t streams) const;
};

}  // namespace tombolo::transport::tcp
