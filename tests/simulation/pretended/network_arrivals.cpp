// What the passing of time does to the sockets of a pretended network.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "tests/simulation/pretended/network.h"

namespace tombolo::simulation {
namespace {

/// Whether nothing refers to the socket any more, and nothing more happens to it.
bool is_over(const Socket& socket) noexcept {
  if (socket.open) return false;
  if (socket.state == Socket::State::kDead) return true;
  if (socket.state != Socket::State::kConnected) return socket.state != Socket::State::kListening;
  // Closed, and the peer's kernel has everything.
  return socket.write_ended && (socket.other == nullptr || socket.other->state == Socket::State::kDead ||
                                (socket.out->ended && socket.in->ended));
}

}  // namespace

void Network::settle(Socket& reader, Pipe& pipe, const Path& path) {
  if (path.silent) return;
  const TimePoint now = clock_.now();
  Socket* const writer = reader.other;
  bool moved = false;
  auto first = pipe.under_way.begin();
  while (first != pipe.under_way.end() && first->arrives <= now) {
    if (reader.state == Socket::State::kDead) break;
    const std::size_t room = pipe.room > pipe.arrived ? pipe.room - pipe.arrived : 0;
    const std::size_t taken = std::min(room, first->bytes);
    if (taken == 0) break;
    pipe.arrived += taken;
    first->bytes -= taken;
    moved = true;
    if (first->bytes != 0) break;
    ++first;
  }
  pipe.under_way.erase(pipe.under_way.begin(), first);
  if (moved) {
    reader.in_edges += 1;
    reader.keepalive_since = now;
    pipe.sent_since = now;
    if (writer != nullptr && writer->full && writer->writable()) {
      writer->full = false;
      writer->out_edges += 1;
    }
    if (writer != nullptr) writer->keepalive_since = now;
  }
  const bool ends = pipe.end && *pipe.end <= now && pipe.under_way.empty() && !pipe.ended;
  if (ends) {
    pipe.ended = true;
    reader.in_edges += 1;
  }
  if (writer == nullptr) return;
  if (ends) writer->note_change();
  if (moved) writer->due_is_old = true;  // its keepalive's
}

void Network::settle(Socket& socket) {
  const TimePoint now = clock_.now();
  if (socket.state != Socket::State::kConnected) return;
  const Path& path = path_of(socket);
  settle(socket, *socket.in, path);
  if (socket.reset_arrives && *socket.reset_arrives <= now && !path.silent) {
    socket.out->under_way.clear();
    socket.out->bytes.resize(socket.out->head + socket.out->arrived);
    if (socket.cut_there) last_cut_ = now;
    socket.cut_here = socket.cut_there;
    die(socket, ECONNRESET);
    return;
  }
  // Bytes that come to a socket that its owner has closed are answered by a reset.
  if (socket.other == nullptr || socket.other->state == Socket::State::kDead) {
    // So are those that come to a socket that was reset, or whose process is gone.
    const Pipe& out = *socket.out;
    const bool comes =
        (!out.under_way.empty() && out.under_way.front().arrives <= now) || (out.end && *out.end <= now);
    // So is a keepalive's probe.
    const bool probed =
        socket.keepalive_idle > Duration::zero() && now - socket.keepalive_since >= socket.keepalive_idle;
    if ((comes || probed) && !path.silent && !socket.reset_arrives) socket.reset_arrives = now + path.delay;
  }
  if (!socket.open && socket.write_ended && socket.in->arrived != 0) {
    socket.in->head += std::exchange(socket.in->arrived, 0);
    if (socket.other != nullptr) send_reset(*socket.other, path);
    die(socket, 0);
    return;
  }
  if (socket.keepalive_idle > Duration::zero() && path.silent) {
    const Duration idle = now - std::max(socket.keepalive_since, TimePoint{});
    if (idle >= socket.keepalive_idle + socket.keepalive_probes * socket.keepalive_interval &&
        now - path.silent_since >= socket.keepalive_probes * socket.keepalive_interval) {
      last_cut_ = now;
      socket.cut_here = true;
      die(socket, ETIMEDOUT);
    }
  }
}

void Network::settle() {
  if (!changed_ && due_ > clock_.now()) return;
  changed_ = false;
  const TimePoint now = clock_.now();
  // A listener that answers adds a socket.
  for (std::size_t i = 0; i < sockets_.size(); ++i) {
    Socket& socket = *sockets_[i];
    if (!socket.changed && socket.due > now) continue;
    socket.changed = false;
    socket.due_is_old = true;
    if (socket.state == Socket::State::kConnecting) try_connect(socket, now);
    settle(socket);
  }
  std::erase_if(sockets_,
                [](const std::shared_ptr<Socket>& one) { return one->due_is_old && is_over(*one); });
  due_ = soonest();
}

TimePoint Network::soonest() {
  TimePoint at = TimePoint::max();
  for (const auto& socket : sockets_) {
    if (std::exchange(socket->due_is_old, false)) socket->due = due_of(*socket);
    at = std::min(at, socket->due);
  }
  return at;
}

std::optional<TimePoint> Network::next() {
  const TimePoint at = soonest();
  return at == TimePoint::max() ? std::nullopt : std::optional(at);
}

/// When settle() has something to do for a socket of which nothing changes; TimePoint::max() where never.
TimePoint Network::due_of(const Socket& socket) const {
  if (socket.state == Socket::State::kConnecting) return socket.answered ? *socket.answered : socket.next_try;
  TimePoint due = TimePoint::max();
  if (socket.state != Socket::State::kConnected) return due;
  const auto note = [&due](TimePoint at) { due = std::min(due, at); };
  const Path& path = path_of(socket);
  const bool asks = socket.keepalive_idle > Duration::zero();
  if (path.silent) {
    const Duration probes = socket.keepalive_probes * socket.keepalive_interval;
    if (asks) note(std::max(socket.keepalive_since + socket.keepalive_idle, path.silent_since) + probes);
    return due;
  }
  const Pipe &in = *socket.in, &out = *socket.out;
  if (socket.reset_arrives) note(*socket.reset_arrives);
  if (!in.under_way.empty() && in.arrived < in.room) note(in.under_way.front().arrives);
  if (in.end && !in.ended && in.under_way.empty()) note(*in.end);
  if (socket.other == nullptr || socket.other->state == Socket::State::kDead) {
    if (!out.under_way.empty()) note(out.under_way.front().arrives);
    if (out.end) note(*out.end);
    if (asks) note(socket.keepalive_since + socket.keepalive_idle);
  }
  return due;
}

}  // namespace tombolo::simulation
