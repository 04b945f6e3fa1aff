// What listeners and connecting ends need to know about this process.
#pragma once

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "transport/backend.h"
#include "transport/bootstrap/secret.h"
#include "transport/bootstrap/tls.h"
#include "transport/tcp/congestion.h"
#include "transport/tcp/options.h"
#include "transport/tcp/pacing.h"
#include "transport/tcp/rate_limit.h"

namespace tombolo::transport::tcp {

/// Immutable once made; shared by what a router made, which may outlive it.
struct Local {
  std::string host;
  std::uint32_t cluster = 0;  ///< Endpoint::cluster_id
  Secret secret;
  std::string secret_hint;  ///< what to do where the two ends' secrets differ
  std::vector<std::shared_ptr<Backend>> backends;
  TcpOptions options;  ///< resolved: idle_timeout is set
  std::map<std::string, std::shared_ptr<NicRateLimit>, std::less<>> limits;  ///< by NIC name
  std::shared_ptr<const Congestion> congestion;
  std::map<std::string, std::shared_ptr<NicPacing>, std::less<>> pacing;  ///< by NIC name
  std::shared_ptr<const Tls> tls;                                         ///< null where TOMBOLO_TLS is off
  std::shared_ptr<Meters> meters;
  Log log;
  const Clock* clock = nullptr;

  /// Null where this process cannot use that carrier.
  std::shared_ptr<Backend> backend_of(Carrier carrier) const {
    for (const auto& backend : backends)
      if (backend->carrier() == carrier) return backend;
    return nullptr;
  }
  /// True where a connection with a process of that cluster is encrypted.
  bool wants_tls(Carrier carrier, std::uint32_t peer_cluster) const noexcept {
    return tls && carrier == Carrier::kTcp && (options.tls.use == TlsUse::kOn || peer_cluster != cluster);
  }
  /// False where what leaves the cluster has to be encrypted, and that carrier cannot.
  bool may_carry(Carrier carrier, std::uint32_t peer_cluster) const noexcept {
    return !tls || carrier == Carrier::kTcp || carrier == Carrier::kShm || peer_cluster == cluster;
  }
  /// Null for a NIC without limit.
  std::shared_ptr<NicRateLimit> limit_of(const std::string& nic) const {
    auto found = limits.find(nic);
    return found == limits.end() ? nullptr : found->second;
  }
};

// A path of few milliseconds is filled by one stream, whose one thread and one window cost the least. On a
// long one a single stream is held back by its window and by every loss: at 100 ms round trip one stream gave
// 293 Mbit/s and eight gave 2330; at 20 ms and 0.1 % loss 30 and 152.
inline constexpr Duration kLongPath = std::chrono::milliseconds(5);
inline constexpr int kStreamsOnLongPaths = 8;
inline constexpr std::size_t kDefaultChunk = 256 * 1024, kLeastChunk = 32 * 1024;
// What all streams of a connection have taken on at most, and not yet sent: the oldest message waits for the
// slowest of them. At 20 ms and 0.1 % loss 54 streams of reno gave 330 Mbit/s with 256 KiB each, and 750 with
// 32.
inline constexpr std::size_t kBacklog = 8 * kDefaultChunk;
inline constexpr std::size_t kChunkAlone = 1024 * 1024;
inline constexpr std::size_t kDefaultReplay = 64 * 1024 * 1024;

/// Most payload bytes per chunk of a connection of so many streams.
inline std::size_t chunk_of(const TcpOptions& options, std::size_t streams) {
  if (options.chunk_bytes != 0) return options.chunk_bytes;
  // One stream gains nothing from cutting messages, but acknowledgements have to get in between.
  if (streams == 1) return kChunkAlone;
  return std::clamp(std::bit_floor(kBacklog / streams), kLeastChunk, kDefaultChunk);
}

/// Options of a stream of a connection of so many streams; throws kSystem.
void prepare_stream(int socket, const Local& local, std::size_t streams);

}  // namespace tombolo::transport::tcp
