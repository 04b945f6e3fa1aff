// Examines a connection's streams a few times per second: sets congestion control and pacing, and adds
// streams where the path would carry more.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "transport/backend.h"
#include "transport/bootstrap/socket.h"
#include "transport/kernel.h"
#include "transport/tcp/connection.h"

namespace tombolo::transport::tcp {
namespace {

// The shortest round trip for which streams are added. On shorter paths one window is enough for 24 Gbit/s
// and more, so a stream that lacks window waits for a slow reader.
constexpr Duration kGrowFrom = std::chrono::milliseconds(1);
// Shares of the time since the last look: with something under way, and held back for want of window or
// buffer.
constexpr double kBusyShare = 0.5, kHeldShare = 0.5;

}  // namespace

void TcpConnection::look_at_streams(TimePoint now) noexcept {
  for (Stream& stream : streams_) {
    if (!stream.live) continue;
    read_tcp_info(stream.socket.get(), *stream.meter);
    settings_->congestion.look(stream.socket.get(), stream.local_nic, stream.losses);
    pace(stream);
  }
  if (!connecting_ || settings_->options.streams != 0 || goodbye_ || error_) return;
  const Duration time = now - last_look_;
  last_look_ = now;
  for (std::size_t nic_pair = 0; nic_pair < controls_.size(); ++nic_pair) {
    PathLook look;
    look.time = time;
    look.bytes_per_second = targets_[nic_pair]->bytes_per_second;
    look.length = Duration::max();
    for (Stream& stream : streams_) {
      if (stream.home != nic_pair) continue;
      if (!stream.live || stream.at != nic_pair) {
        ++look.missing;
        continue;
      }
      ++look.streams;
      take_look(stream, time, look);
    }
    if (look.streams == 0 || look.length < kGrowFrom) continue;
    look.round_trip /= static_cast<std::int64_t>(look.streams);
    const std::size_t room = static_cast<std::size_t>(kMostStreams) - streams_.size();
    if (const std::size_t more = std::min(room, controls_[nic_pair].decide(look)); more != 0) {
      local_->log.info("{}: {} stream(s) more over {} -> {}, {} are held back", description_, more,
                       targets_[nic_pair]->nic, targets_[nic_pair]->peer_nic, look.streams);
      want_streams(nic_pair, more);
    }
  }
}

void TcpConnection::take_look(Stream& stream, Duration time, PathLook& look) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (kernel().getsockopt(stream.socket.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  Stream::Look& last = stream.last_look;
  if (info.tcpi_bytes_acked < last.bytes) last = {};  // the stream has a new socket
  const Stream::Look now{info.tcpi_bytes_acked, info.tcpi_busy_time,
                         info.tcpi_rwnd_limited + info.tcpi_sndbuf_limited, info.tcpi_segs_out,
                         info.tcpi_total_retrans};
  const double busy = static_cast<double>(now.busy_us - last.busy_us);
  const double held = static_cast<double>(now.held_us - last.held_us);
  look.bytes += now.bytes - last.bytes;
  look.sent += now.sent - last.sent;
  look.repeated += now.repeated - last.repeated;
  look.round_trip += std::chrono::microseconds(info.tcpi_rtt);
  look.length = std::min<Duration>(look.length, std::chrono::microseconds(info.tcpi_min_rtt));
  if (busy >= kBusyShare * 1e6 * to_seconds(time)) {
    ++look.busy;
    if (held >= kHeldShare * busy) ++look.held_back;
  }
  last = now;
}

void TcpConnection::want_streams(std::size_t nic_pair, std::size_t more) noexcept {
  const std::size_t first = streams_.size();
  try {
    grow(first + more);
  } catch (const Error& error) {
    local_->log.warning("{}: no further stream: {}", description_, error.what());
    return;
  }
  for (std::size_t i = first; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    stream.home = stream.at = stream.next = nic_pair;
    stream.local_nic = targets_[nic_pair]->nic;
    stream.peer_nic = targets_[nic_pair]->peer_nic;
    stream.meter = &meter_->add_stream(stream.local_nic, stream.peer_nic);
    stream.meter->down.set(1);
  }
  dialing_ = true;
  meter_->decided_streams.set(streams_.size());
}

void TcpConnection::pace(Stream& stream) noexcept {
  const auto nic = settings_->pacing.find(stream.local_nic);
  if (nic == settings_->pacing.end()) return;
  if (!stream.paced) stream.paced = std::make_unique<PacedStream>(nic->second);
  const std::uint64_t rate = stream.paced->bytes_per_second();
  if (rate == stream.pace) return;
  if (kernel().setsockopt(stream.socket.get(), SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate) == 0)
    stream.pace = rate;
}

}  // namespace tombolo::transport::tcp
