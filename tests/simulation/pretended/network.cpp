#include "tests/simulation/pretended/network.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tombolo::simulation {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// As Linux' tcp_wmem and tcp_rmem, smaller, so that small messages meet full buffers.
constexpr std::size_t kSendRoom = 64 * 1024, kReceiveRoom = 48 * 1024;
// What a kernel sends again after a path was silent comes after at most this.
constexpr Duration kMostRepeat = milliseconds(400);

}  // namespace

bool Socket::readable() const noexcept {
  if (state == State::kListening) return !waiting.empty();
  if (state == State::kDead) return true;
  if (state != State::kConnected) return false;
  return error != 0 || in->arrived != 0 || in->ended || read_ended;
}

bool Socket::writable() const noexcept {
  if (state == State::kDead) return true;
  if (state != State::kConnected) return false;
  return error != 0 || write_ended || out->unacknowledged() < out->send_room;
}

void Network::set_silent(unsigned nic, bool silent) {
  settle();
  changed_ = true;
  Path& path = paths_[nic];
  if (path.silent == silent) return;
  path.silent = silent;
  const TimePoint now = clock_.now();
  if (silent) {
    path.silent_since = now;
    return;
  }
  // What was lost is sent again, in order.
  for (const auto& socket : sockets_) {
    if (nic_of(socket->own.host) != nic) continue;
    socket->keepalive_since = now;
    for (Pipe* pipe : {socket->out.get()}) {
      if (pipe == nullptr) continue;
      const Duration repeat(std::uniform_int_distribution<std::int64_t>(0, kMostRepeat.count())(random_));
      TimePoint after = now + path.delay + repeat;
      for (Pipe::Segment& segment : pipe->under_way)
        after = segment.arrives = std::max(segment.arrives, after);
      if (pipe->end) pipe->end = std::max(*pipe->end, after);
      pipe->last_arrival = std::max(pipe->last_arrival, after);
      pipe->sent_since = now;
    }
    if (socket->reset_arrives) socket->reset_arrives.reset();  // it was lost, and nobody repeats it
  }
}

bool Network::listen(const std::shared_ptr<Socket>& socket, std::size_t backlog) {
  changed_ = true;
  auto& entry = listeners_[socket->own];
  if (!entry.expired() && entry.lock()->open) return false;
  entry = socket;
  socket->state = Socket::State::kListening;
  socket->backlog = backlog;
  sockets_.push_back(socket);
  return true;
}

std::uint16_t Network::free_port(std::uint32_t host) {
  for (;;) {
    if (next_port_ < 30000) next_port_ = 30000;
    const std::uint16_t port = next_port_++;
    if (!listeners_.contains({host, port})) return port;
  }
}

void Network::connect(const std::shared_ptr<Socket>& socket, Address to) {
  changed_ = true;
  if (socket->own.port == 0) socket->own.port = free_port(socket->own.host);
  socket->peer = to;
  socket->state = Socket::State::kConnecting;
  socket->next_try = clock_.now();
  socket->pause = seconds(1);
  sockets_.push_back(socket);
  try_connect(socket, clock_.now());
}

void Network::try_connect(const std::shared_ptr<Socket>& socket, TimePoint now) {
  const Path& path = path_of(*socket);
  while (!socket->answered && socket->next_try <= now) {
    const TimePoint tried = socket->next_try;
    socket->next_try += socket->pause;
    socket->pause *= 2;
    if (socket->pause > seconds(70)) return die(*socket, ETIMEDOUT);
    if (path.silent || closed_[host_of(socket->peer.host)] ||
        nic_of(socket->peer.host) != nic_of(socket->own.host))
      continue;
    socket->answered = std::max(tried, now) + 2 * path.delay;
  }
  if (!socket->answered || *socket->answered > now) return;
  if (path.silent) {
    socket->answered.reset();
    return;
  }
  const auto found = listeners_.find(socket->peer);
  const auto listener = found == listeners_.end() ? nullptr : found->second.lock();
  if (!listener || !listener->open || listener->state != Socket::State::kListening)
    return die(*socket, ECONNREFUSED);
  if (listener->waiting.size() >= listener->backlog) {
    socket->answered.reset();
    return;
  }
  auto there = std::make_shared<Socket>();
  there->own = socket->peer;
  there->peer = socket->own;
  for (Socket* one : {socket.get(), there.get()}) {
    one->state = Socket::State::kConnected;
    one->out = std::make_shared<Pipe>();
    one->out->room = kReceiveRoom;
    one->out->send_room = kSendRoom;
    one->out->last_arrival = now;
    one->keepalive_since = now;
    one->out_edges += 1;
  }
  socket->in = there->out;
  there->in = socket->out;
  socket->other = there;
  there->other = socket;
  there->open = false;  // until it is accepted
  sockets_.push_back(there);
  listener->waiting.push_back(there);
  listener->in_edges += 1;
}

void Network::die(Socket& socket, int error) {
  if (socket.state == Socket::State::kDead) return;
  socket.state = Socket::State::kDead;
  // A reset behind the peer's end has an error of its own.
  const bool ended = socket.in && socket.in->ended && !socket.write_ended;
  socket.error = error == ECONNRESET && ended ? EPIPE : error;
  socket.in_edges += 1;
  socket.out_edges += 1;
}

std::ptrdiff_t Network::write(Socket& socket, std::span<const std::byte> bytes) {
  if (socket.error != 0) return -take_error(socket);
  if (socket.state == Socket::State::kConnecting) return -EAGAIN;
  if (socket.state != Socket::State::kConnected || socket.write_ended) return -EPIPE;
  Pipe& pipe = *socket.out;
  const std::size_t used = pipe.unacknowledged();
  if (used >= pipe.send_room) {
    socket.full = true;
    return -EAGAIN;
  }
  const std::size_t taken = std::min(bytes.size(), pipe.send_room - used);
  socket.full = taken < bytes.size();
  if (taken == 0) return 0;
  // Bytes that were read are given back now and then.
  if (pipe.head > 64 * 1024 && pipe.head * 2 > pipe.bytes.size()) {
    pipe.bytes.erase(pipe.bytes.begin(), pipe.bytes.begin() + static_cast<std::ptrdiff_t>(pipe.head));
    pipe.head = 0;
  }
  pipe.bytes.insert(pipe.bytes.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(taken));
  const Path& path = path_of(socket);
  const TimePoint now = clock_.now();
  if (pipe.under_way.empty()) pipe.sent_since = now;
  const Duration takes = from_seconds(static_cast<double>(taken) / path.bytes_per_second);
  pipe.last_arrival = std::max(pipe.last_arrival, now + path.delay) + takes;
  pipe.under_way.push_back({taken, pipe.last_arrival});
  due_ = due_ ? std::min(*due_, pipe.last_arrival) : pipe.last_arrival;
  return static_cast<std::ptrdiff_t>(taken);
}

std::ptrdiff_t Network::read(Socket& socket, std::span<std::byte> into, bool peek) {
  if (socket.state == Socket::State::kConnecting) return -EAGAIN;
  if (socket.in && socket.in->arrived != 0 && !into.empty()) {
    Pipe& pipe = *socket.in;
    const std::size_t taken = std::min(into.size(), pipe.arrived);
    std::memcpy(into.data(), pipe.bytes.data() + pipe.head, taken);
    if (peek) return static_cast<std::ptrdiff_t>(taken);
    pipe.head += taken;
    pipe.arrived -= taken;
    if (pipe.head == pipe.bytes.size()) {
      pipe.bytes.clear();
      pipe.head = 0;
    }
    // The window has opened, for what has come and for what is still to come.
    settle(socket);
    changed_ = true;
    return static_cast<std::ptrdiff_t>(taken);
  }
  // An end that has come is read again and again, whatever came after it.
  if (socket.in && socket.in->ended) return 0;
  if (socket.error != 0) return -take_error(socket);
  if (socket.state == Socket::State::kFresh || socket.state == Socket::State::kListening) return -ENOTCONN;
  if (socket.state == Socket::State::kDead || socket.read_ended) return 0;
  return -EAGAIN;
}

int Network::take_error(Socket& socket) noexcept {
  if (socket.error != 0 && socket.cut_here) last_cut_ = clock_.now();
  return std::exchange(socket.error, 0);
}

void Network::shut_write(Socket& socket) {
  changed_ = true;
  if (socket.state != Socket::State::kConnected || socket.write_ended) return;
  socket.write_ended = true;
  socket.out_edges += 1;
  Pipe& pipe = *socket.out;
  pipe.end = std::max(pipe.last_arrival, clock_.now() + path_of(socket).delay);
  if (pipe.under_way.empty()) pipe.sent_since = clock_.now();
}

void Network::send_reset(Socket& to, const Path& path) {
  if (to.state != Socket::State::kConnected || path.silent) return;
  const TimePoint at = clock_.now() + path.delay;
  if (!to.reset_arrives || *to.reset_arrives > at) to.reset_arrives = at;
}

void Network::close(const std::shared_ptr<Socket>& socket) {
  changed_ = true;
  socket->open = false;
  // Whoever closes a stream that was cut without having heard of it sends nothing again.
  if (socket->cut_there || (socket->state == Socket::State::kDead && socket->error != 0 && socket->cut_here))
    last_cut_ = clock_.now();
  const bool was_listening = socket->state == Socket::State::kListening;
  if (was_listening) {
    for (const auto& one : socket->waiting) {
      if (auto other = one->other.lock()) send_reset(*other, path_of(*one));
      die(*one, ECONNRESET);
    }
    socket->waiting.clear();
    listeners_.erase(socket->own);
  }
  if (socket->state == Socket::State::kConnected) {
    auto other = socket->other.lock();
    if (socket->reset_on_close || socket->in->arrived != 0) {
      // Unread bytes, or SO_LINGER of no time: the connection is reset, and what was under way is dropped.
      // Where nothing gets through, the stream is given up for that, and the peer cannot hear of it now.
      if (socket->reset_on_close && path_of(*socket).silent) note_cut(*socket);
      socket->out->under_way.clear();
      socket->out->bytes.resize(socket->out->head + socket->out->arrived);
      if (other) send_reset(*other, path_of(*socket));
      die(*socket, 0);
    } else {
      shut_write(*socket);
    }
  } else {
    socket->state = Socket::State::kDead;
  }
}

void Network::reset(Socket& socket, bool this_end, bool other_end) {
  changed_ = true;
  if (socket.state != Socket::State::kConnected) return;
  auto other = socket.other.lock();
  auto cut = [](Socket& one) {
    // What has not arrived at the peer never will.
    one.out->under_way.clear();
    one.out->bytes.resize(one.out->head + one.out->arrived);
  };
  if (this_end) {
    cut(socket);
    die(socket, ECONNRESET);
  }
  if (other_end && other && other->state == Socket::State::kConnected) {
    cut(*other);
    die(*other, ECONNRESET);
  }
  last_cut_ = clock_.now();
  socket.cut_there = !this_end;
  socket.cut_here = this_end;
  if (other) other->cut_there = !other_end;
  if (other) other->cut_here = other_end;
}

void Network::note_cut(const Socket& socket) noexcept {
  last_cut_ = clock_.now();
  if (const auto other = socket.other.lock()) other->cut_there = true;
}

Duration Network::unanswered(const Socket& socket) const {
  if (socket.state != Socket::State::kConnected) return Duration::zero();
  const Pipe& pipe = *socket.out;
  const Path& path = path_of(socket);
  if (!path.silent || (pipe.under_way.empty() && !pipe.end)) return Duration::zero();
  const Duration since = clock_.now() - std::max(path.silent_since, pipe.sent_since);
  return since >= milliseconds(200) ? since : Duration::zero();  // the first repetition
}

void Network::settle(Socket& reader, Pipe& pipe, const Path& path) {
  if (path.silent) return;
  const TimePoint now = clock_.now();
  auto writer = reader.other.lock();
  bool moved = false;
  while (!pipe.under_way.empty() && pipe.under_way.front().arrives <= now) {
    Pipe::Segment& first = pipe.under_way.front();
    if (reader.state == Socket::State::kDead) break;
    const std::size_t room = pipe.room > pipe.arrived ? pipe.room - pipe.arrived : 0;
    const std::size_t taken = std::min(room, first.bytes);
    if (taken == 0) break;
    pipe.arrived += taken;
    first.bytes -= taken;
    moved = true;
    if (first.bytes == 0) pipe.under_way.pop_front();
  }
  if (moved) {
    reader.in_edges += 1;
    reader.keepalive_since = now;
    pipe.sent_since = now;
    if (writer && writer->full && writer->writable()) {
      writer->full = false;
      writer->out_edges += 1;
    }
    if (writer) writer->keepalive_since = now;
  }
  if (pipe.end && *pipe.end <= now && pipe.under_way.empty() && !pipe.ended) {
    pipe.ended = true;
    reader.in_edges += 1;
  }
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
  if (const auto other = socket.other.lock(); !other || other->state == Socket::State::kDead) {
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
    if (auto other = socket.other.lock()) send_reset(*other, path);
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
  if (!changed_ && (!due_ || *due_ > clock_.now())) return;
  changed_ = false;
  for (std::size_t i = 0; i < sockets_.size(); ++i) {
    const std::shared_ptr<Socket> socket = sockets_[i];
    if (socket->state == Socket::State::kConnecting) try_connect(socket, clock_.now());
    settle(*socket);
  }
  std::erase_if(sockets_, [](const std::shared_ptr<Socket>& one) {
    if (one->open) return false;
    if (one->state == Socket::State::kDead) return true;
    if (one->state != Socket::State::kConnected) return one->state != Socket::State::kListening;
    const auto other = one->other.lock();
    // Closed, and the peer's kernel has everything.
    return one->write_ended &&
           (!other || other->state == Socket::State::kDead || (one->out->ended && one->in->ended));
  });
  due_ = next();
}

std::optional<TimePoint> Network::next() const {
  std::optional<TimePoint> soonest;
  auto note = [&](TimePoint at) { soonest = soonest ? std::min(*soonest, at) : at; };
  for (const auto& socket : sockets_) {
    if (socket->state == Socket::State::kConnecting)
      note(socket->answered ? *socket->answered : socket->next_try);
    if (socket->state != Socket::State::kConnected) continue;
    const Path& path = path_of(*socket);
    if (path.silent) {
      if (socket->keepalive_idle > Duration::zero()) {
        const Duration probes = socket->keepalive_probes * socket->keepalive_interval;
        note(std::max(socket->keepalive_since + socket->keepalive_idle, path.silent_since) + probes);
      }
      continue;
    }
    const Pipe& in = *socket->in;
    if (socket->reset_arrives) note(*socket->reset_arrives);
    if (!in.under_way.empty() && in.arrived < in.room) note(in.under_way.front().arrives);
    if (in.end && !in.ended && in.under_way.empty()) note(*in.end);
    if (const auto other = socket->other.lock(); !other || other->state == Socket::State::kDead) {
      if (!socket->out->under_way.empty()) note(socket->out->under_way.front().arrives);
      if (socket->out->end) note(*socket->out->end);
      if (socket->keepalive_idle > Duration::zero()) note(socket->keepalive_since + socket->keepalive_idle);
    }
  }
  return soonest;
}

}  // namespace tombolo::simulation
