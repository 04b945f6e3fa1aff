// What listeners and connecting ends need to know about this process.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "transport/secret.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/options.h"
#include "transport/tcp/rate_limit.h"

namespace tombolo::transport::tcp {

/// Immutable once made; shared by what a router made, which may outlive it.
struct Local {
  std::string host;
  Secret secret;
  TcpOptions options;  ///< resolved: idle_timeout is set
  std::map<std::string, std::shared_ptr<NicRateLimit>, std::less<>> limits;  ///< by NIC name
  Log log;
  const Clock* clock = nullptr;

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
inline constexpr std::size_t kDefaultChunk = 256 * 1024;

/// Most payload bytes per chunk of a connection of so many streams.
inline std::size_t chunk_of(const TcpOptions& options, std::size_t streams) {
  if (options.chunk_bytes != 0) return options.chunk_bytes;
  // One stream gains nothing from cutting messages.
  return streams == 1 ? kLongestChunk : kDefaultChunk;
}

/// Options of a stream of a connection of so many streams; throws kSystem.
void prepare_stream(int socket, const Local& local, std::size_t streams);

}  // namespace tombolo::transport::tcp
