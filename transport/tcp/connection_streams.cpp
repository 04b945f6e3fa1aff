// The streams that a connection has: makes room for them and watches their sockets. Examines them a few times
// per second: sets congestion control and pacing, and adds streams where the path would carry more.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "transport/backend.h"
#include "transport/kernel.h"
#include "transport/sockets/socket.h"
#include "transport/tcp/connection.h"

namespace tombolo::transport::tcp {
namespace {

std::optional<TcpCounters> counters_of(int socket) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (kernel().getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  return TcpCounters{info.tcpi_bytes_acked,
                     info.tcpi_busy_time,
                     info.tcpi_rwnd_limited + info.tcpi_sndbuf_limited,
                     info.tcpi_segs_out,
                     info.tcpi_total_retrans,
                     std::chrono::microseconds(info.tcpi_rtt),
                     std::chrono::microseconds(info.tcpi_min_rtt)};
}

}  // namespace

/// Makes room for so many streams. Changes nothing where it throws.
void TcpConnection::grow(std::size_t streams) {
  if (streams <= streams_.size()) return;
  // From now on the streams share the work, in pieces that are small enough not to hold the others up.
  if (streams > 1) {
    Descriptor first;
    if (!epoll_) {
      first = Descriptor(kernel().epoll_create1(EPOLL_CLOEXEC));
      if (!first) fail_errno(errno, "epoll_create1");
    }
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if (!streams_[i].live()) continue;
      settings_->limit_buffers(streams_[i].socket(), streams);
      if (first) watch(first, i);
    }
    if (first) {
      epoll_ = std::move(first);
      // What was noted of the only stream was never kept up, and epoll does not tell of what TLS holds of it.
      for (Stream& stream : streams_) stream.ready = {};
    }
    sender_.set_pieces(settings_->chunk_of(streams), settings_->backlog_of(streams));
  }
  resize(streams);
}

void TcpConnection::resize(std::size_t streams) {
  streams_.resize(streams);
  reconnector_.grow(streams);
}

void TcpConnection::watch(const Descriptor& epoll, std::size_t index) const {
  if (!epoll) return;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = index;
  if (kernel().epoll_ctl(epoll.get(), EPOLL_CTL_ADD, streams_[index].socket(), &event) != 0)
    fail_errno(errno, "epoll_ctl");
}

/// A stream of which nothing would be heard is opened again like one that broke.
void TcpConnection::watch_or_lose(std::size_t index) {
  try {
    watch(epoll_, index);
  } catch (const Error& error) {
    local().log.warning("{}: {}", description_, error.what());
    lose(index, StreamLoss::of(ENOMEM));
  }
}

void TcpConnection::look_at_streams(TimePoint now) {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    if (!stream.live()) continue;
    read_tcp_info(stream.socket(), *stream.meter);
    settings_->congestion.look(stream.socket(), stream.path.local_nic, tuner_.losses(i));
    pace(i);
  }
  if (!connecting_ || settings_->options.streams != 0 || !shutdown_.open()) return;
  tuner_.begin_look(targets_.size(), now);
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const Stream& stream = streams_[i];
    if (stream.live() && !reconnector_.away(i))
      tuner_.note_stream(reconnector_.home(i), i, counters_of(stream.socket()));
    else
      tuner_.note_missing(reconnector_.home(i));
  }
  for (std::size_t nic_pair = 0; nic_pair < targets_.size(); ++nic_pair) {
    const bootstrap::Target& target = *targets_[nic_pair];
    const std::size_t room = static_cast<std::size_t>(kMostStreams) - streams_.size();
    const std::size_t more = tuner_.more_streams(nic_pair, target.bytes_per_second, room);
    if (more == 0) continue;
    local().log.info("{}: {} stream(s) more over {} -> {}, {} are held back", description_, more, target.nic,
                     target.peer_nic, tuner_.streams(nic_pair));
    want_streams(nic_pair, more);
  }
}

void TcpConnection::want_streams(std::size_t nic_pair, std::size_t more) {
  const std::size_t first = streams_.size();
  try {
    grow(first + more);
  } catch (const Error& error) {
    local().log.warning("{}: no further stream: {}", description_, error.what());
    return;
  }
  for (std::size_t i = first; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    reconnector_.add(i, nic_pair);
    stream.path.local_nic = targets_[nic_pair]->nic;
    stream.path.peer_nic = targets_[nic_pair]->peer_nic;
    stream.meter = &meter_->add_stream(stream.path.local_nic, stream.path.peer_nic);
    stream.meter->down.set(1);
  }
  dialing_ = true;
  meter_->decided_streams.set(streams_.size());
}

void TcpConnection::pace(std::size_t index) {
  const Stream& stream = streams_[index];
  const auto nic = settings_->pacing.find(stream.path.local_nic);
  if (nic == settings_->pacing.end()) return;
  const std::optional<std::uint64_t> rate = tuner_.new_pace(index, nic->second);
  if (rate && kernel().setsockopt(stream.socket(), SOL_SOCKET, SO_MAX_PACING_RATE, &*rate, sizeof *rate) == 0)
    tuner_.paced(index, *rate);
}

}  // namespace tombolo::transport::tcp
