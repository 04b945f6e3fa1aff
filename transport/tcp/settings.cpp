#include "transport/tcp/settings.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/error.h"
#include "transport/sockets/socket.h"
#include "transport/tcp/stream/wire.h"

namespace tombolo::transport::tcp {
namespace {

// The send buffer inside a host, by measurement. What is under way then stays in the second-level cache: at
// 1 MiB that gave a quarter more per second on an Intel Xeon than a buffer that the kernel grows to
// megabytes. On an AMD EPYC half of it gave 8 to 18 % less from 256 KiB on, and one and a half times as much
// 13 to 30 %.
constexpr int kSendBufferOnOneHost = 512 * 1024;

constexpr std::size_t kDefaultChunk = 256 * 1024, kLeastChunk = 32 * 1024;
// The most bytes that all streams of a connection together have taken on and not yet sent: the oldest message
// waits for the slowest of them. At 20 ms and 0.1 % loss 54 streams of reno gave 330 Mbit/s with 256 KiB
// each, and 750 with 32.
constexpr std::size_t kBacklog = 8 * kDefaultChunk;
// With several streams, how much one takes on before it has written it. It is small, so that a slow stream
// holds little back, but enough for one write.
constexpr std::size_t kBacklogPerStream = 256 * 1024;
constexpr std::size_t kChunkAlone = 1024 * 1024;
constexpr std::size_t kDefaultReplay = 64 * 1024 * 1024;

}  // namespace

TcpSettings::TcpSettings(const TcpOptions& given, const std::vector<NicLimit>& nic_limits, const Log& log)
    : options(given), congestion(CongestionRules(given.congestion, "TOMBOLO_TCP_CONGESTION"), log) {
  if (options.replay_bytes == 0) options.replay_bytes = kDefaultReplay;
  if (options.streams < 0 || options.streams > kMostStreams || options.chunk_bytes > kLongestChunk) {
    fail(Cause::kInvalidUsage,
         "TCP options: {} streams (0 to {} are allowed), chunks of {} bytes (at most {})", options.streams,
         kMostStreams, options.chunk_bytes, kLongestChunk);
  }
  for (const NicLimit& limit : nic_limits) {
    if (!(limit.bytes_per_second > 0)) {
      fail(Cause::kInvalidUsage, "limit of NIC {}: {} bytes/s, expected more than 0", limit.nic,
           limit.bytes_per_second);
    }
    limits[limit.nic] = std::make_shared<NicRateLimit>(limit.bytes_per_second);
  }
  for (const TcpOptions::Pace& pace : options.pacing)
    pacing[pace.nic] = std::make_shared<NicPacing>(pace.bytes_per_second);
}

std::shared_ptr<NicRateLimit> TcpSettings::limit_of(const std::string& nic) const {
  auto found = limits.find(nic);
  return found == limits.end() ? nullptr : found->second;
}

std::size_t TcpSettings::backlog_of(std::size_t streams) const noexcept {
  return streams > 1 ? std::min(kBacklogPerStream, chunk_of(streams)) : SIZE_MAX;
}

std::size_t TcpSettings::chunk_of(std::size_t streams) const noexcept {
  if (options.chunk_bytes != 0) return options.chunk_bytes;
  // With one stream nothing is gained by cutting messages, but acknowledgements have to get in between
  // chunks.
  if (streams == 1) return kChunkAlone;
  return std::clamp(std::bit_floor(kBacklog / streams), kLeastChunk, kDefaultChunk);
}

void TcpSettings::limit_buffers(int socket, std::size_t streams) const {
  // Only with several streams does it matter in which one the bytes wait.
  if (streams > 1)
    sockets::limit_unsent(socket, static_cast<int>(std::min(kDefaultChunk, chunk_of(streams))));
  if (sockets::ends_on_one_host(socket)) sockets::limit_send_buffer(socket, kSendBufferOnOneHost);
}

}  // namespace tombolo::transport::tcp
