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

Socket::~Socket() {
  if (other == nullptr) return;
  other->other = nullptr;
  other->note_change();
}

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
  Path& path = paths_.at(nic);
  if (path.silent == silent) return;
  path.silent = silent;
  for (const auto& socket : sockets_) socket->note_change();
  const TimePoint now = clock_.now();
  if (silent) {
    path.silent_since = now;
    return;
  }
  // What was lost is sent again, in order.
  for (const auto& socket : sockets_) {
    if (nic_of(socket->own.host) != nic) continue;
    socket->keepalive_since = now;
    if (Pipe* const pipe = socket->out.get(); pipe != nullptr) {
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
  socket->note_change();
  sockets_.push_back(socket);
  try_connect(*socket, clock_.now());
}

void Network::try_connect(Socket& socket, TimePoint now) {
  const Path& path = path_of(socket);
  while (!socket.answered && socket.next_try <= now) {
    const TimePoint tried = socket.next_try;
    socket.next_try += socket.pause;
    socket.pause *= 2;
    if (socket.pause > seconds(70)) return die(socket, ETIMEDOUT);
    if (path.silent || closed_[host_of(socket.peer.host)] ||
        nic_of(socket.peer.host) != nic_of(socket.own.host))
      continue;
    socket.answered = std::max(tried, now) + 2 * path.delay;
  }
  if (!socket.answered || *socket.answered > now) return;
  if (path.silent) {
    socket.answered.reset();
    return;
  }
  const auto found = listeners_.find(socket.peer);
  const auto listener = found == listeners_.end() ? nullptr : found->second.lock();
  if (!listener || !listener->open || listener->state != Socket::State::kListening)
    return die(socket, ECONNREFUSED);
  if (listener->waiting.size() >= listener->backlog) {
    socket.answered.reset();
    return;
  }
  establish(socket, listener, now);
}

/// A listener has answered: what it accepts is there.
void Network::establish(Socket& socket, const std::shared_ptr<Socket>& listener, TimePoint now) {
  auto there = std::make_shared<Socket>();
  there->own = socket.peer;
  there->peer = socket.own;
  for (Socket* one : {&socket, there.get()}) {
    one->state = Socket::State::kConnected;
    one->out = std::make_shared<Pipe>();
    one->out->room = kReceiveRoom;
    one->out->send_room = kSendRoom;
    one->out->last_arrival = now;
    one->keepalive_since = now;
    one->out_edges += 1;
  }
  socket.in = there->out;
  there->in = socket.out;
  socket.other = there.get();
  there->other = &socket;
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
  note_change(socket);
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
  due_ = std::min(due_, pipe.last_arrival);
  note_change(socket);
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
    socket.note_change();
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
  note_change(socket);
}

void Network::send_reset(Socket& to, const Path& path) {
  if (to.state != Socket::State::kConnected || path.silent) return;
  const TimePoint at = clock_.now() + path.delay;
  if (!to.reset_arrives || *to.reset_arrives > at) to.reset_arrives = at;
  to.note_change();
}

void Network::close(const std::shared_ptr<Socket>& socket) {
  changed_ = true;
  socket->open = false;
  note_change(*socket);
  // Whoever closes a stream that was cut without having heard of it sends nothing again.
  if (socket->cut_there || (socket->state == Socket::State::kDead && socket->error != 0 && socket->cut_here))
    last_cut_ = clock_.now();
  const bool was_listening = socket->state == Socket::State::kListening;
  if (was_listening) {
    for (const auto& one : socket->waiting) {
      if (one->other != nullptr) send_reset(*one->other, path_of(*one));
      die(*one, ECONNRESET);
    }
    socket->waiting.clear();
    listeners_.erase(socket->own);
  }
  if (socket->state == Socket::State::kConnected) {
    if (socket->reset_on_close || socket->in->arrived != 0) {
      // Unread bytes, or SO_LINGER of no time: the connection is reset, and what was under way is dropped.
      // Where nothing gets through, the stream is given up for that, and the peer cannot hear of it now.
      if (socket->reset_on_close && path_of(*socket).silent) note_cut(*socket);
      socket->out->under_way.clear();
      socket->out->bytes.resize(socket->out->head + socket->out->arrived);
      if (socket->other != nullptr) send_reset(*socket->other, path_of(*socket));
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
  Socket* const other = socket.other;
  const auto cut = [](Socket& one) {
    // What has not arrived at the peer never will.
    one.out->under_way.clear();
    one.out->bytes.resize(one.out->head + one.out->arrived);
    note_change(one);
  };
  if (this_end) {
    cut(socket);
    die(socket, ECONNRESET);
  }
  if (other_end && other != nullptr && other->state == Socket::State::kConnected) {
    cut(*other);
    die(*other, ECONNRESET);
  }
  last_cut_ = clock_.now();
  socket.cut_there = !this_end;
  socket.cut_here = this_end;
  if (other == nullptr) return;
  other->cut_there = !other_end;
  other->cut_here = other_end;
}

void Network::note_cut(const Socket& socket) noexcept {
  last_cut_ = clock_.now();
  if (socket.other != nullptr) socket.other->cut_there = true;
}

Duration Network::unanswered(const Socket& socket) const {
  if (socket.state != Socket::State::kConnected) return Duration::zero();
  const Pipe& pipe = *socket.out;
  const Path& path = path_of(socket);
  if (!path.silent || (pipe.under_way.empty() && !pipe.end)) return Duration::zero();
  const Duration since = clock_.now() - std::max(path.silent_since, pipe.sent_since);
  return since >= milliseconds(200) ? since : Duration::zero();  // the first repetition
}

}  // namespace tombolo::simulation
