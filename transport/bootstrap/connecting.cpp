#include "transport/bootstrap/connecting.h"

#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/units.h"
#include "transport/tcp/connection.h"
#include "transport/tcp/path_control.h"

namespace tombolo::transport::tcp {
namespace {

std::shared_ptr<const Target> target_of(const Way& way, const Offer& from, const Offer& to) {
  auto target = std::make_shared<Target>();
  target->nic = from.nic;
  target->local_address = from.address;
  target->peer_nic = to.nic;
  target->tls = way.tls;
  target->peer = SocketAddress::parse(to.address, to.port);
  target->bytes_per_second =
      static_cast<double>(std::min(from.rate_bits_per_second, to.rate_bits_per_second)) / 8;
  const std::string& peer = way.options.peer_name;
  target->description =
      fmt::format("connect to {}{}{} (NIC {} {} -> {} {})", peer, peer.empty() ? "host " : " on host ",
                  way.route.peer_host.empty() ? "?" : way.route.peer_host, from.nic, from.address,
                  to.nic.empty() ? "?" : to.nic, to_text(target->peer));
  return target;
}

Descriptor make_timer() {
  Descriptor timer(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer) fail_errno(errno, "timerfd_create");
  return timer;
}

void arm(const Descriptor& timer, Duration wait, std::vector<pollfd>& handles) {
  // Zero would disarm the timer.
  wait = std::max<Duration>(wait, std::chrono::microseconds(1));
  itimerspec at{};
  at.it_value.tv_sec = static_cast<time_t>(wait / std::chrono::seconds(1));
  at.it_value.tv_nsec = static_cast<long>((wait % std::chrono::seconds(1)).count());
  timerfd_settime(timer.get(), 0, &at, nullptr);
  handles.push_back({timer.get(), POLLIN, 0});
}

[[noreturn]] void give_up_waiting(const Target& target, const Deadline& deadline,
                                  const std::string& trouble) {
  fail(Cause::kTimeout,
       "{}: not connected within {}; last: {}. If these NICs are on separate networks, give them different "
       "fabrics in a cluster file (docs/cluster-file.md)",
       target.description, format_seconds(to_seconds(deadline.allowed())),
       trouble.empty() ? "no answer" : trouble);
}

/// What the endpoint did not tell, since it was encoded compactly.
void learn(Route& route, const Reply& reply, const Target& target) {
  if (route.peer_host.empty()) route.peer_host = reply.host;
  if (route.peer_nic.empty()) route.peer_nic = reply.nic;
  route.peer_address = to_text(target.peer);
}

}  // namespace

TcpConnecting::TcpConnecting(std::shared_ptr<const Local> local, std::shared_ptr<Acceptor> acceptor, Way way)
    : local_(std::move(local)),
      acceptor_(std::move(acceptor)),
      way_(std::move(way)),
      deadline_(Deadline::after(way_.options.deadline, *local_->clock)),
      timer_(make_timer()) {
  random_bytes(connection_);
  for (const auto& [from, to] : way_.lanes) targets_.push_back(target_of(way_, from, to));
  do streams_.emplace_back(local_, targets_[0], deadline_);
  while (std::ssize(streams_) < local_->options.streams);
  for (std::size_t i = 0; i < streams_.size(); ++i) streams_[i].greet(hello(i), streams_.size());
  for (Dial& stream : streams_) stream.poll();
}

Hello TcpConnecting::hello(std::size_t stream) const {
  Hello hello;
  hello.connection = connection_;
  hello.stream = static_cast<std::uint16_t>(stream);
  hello.streams = static_cast<std::uint16_t>(streams_.size());
  hello.label = way_.options.label;
  hello.kind = way_.route.kind;
  hello.emulated = way_.route.emulated;
  hello.listener = way_.listener;
  if (acceptor_) hello.reply_port = acceptor_->port_of(way_.from.address);
  return hello;
}

std::unique_ptr<Connection> TcpConnecting::poll() {
  bool ready = true;
  for (Dial& stream : streams_) ready &= stream.poll() == Dial::State::kReady;
  if (!ready) {
    if (!deadline_.passed()) return nullptr;
    std::string trouble;
    for (const Dial& stream : streams_)
      trouble = stream.last_trouble().empty() ? trouble : stream.last_trouble();
    give_up_waiting(*targets_[0], deadline_, trouble);
  }
  learn(way_.route, streams_[0].reply(), *targets_[0]);
  // The handshake's round trips have measured the path; a single one may have met a busy host.
  const auto streams = static_cast<std::size_t>(
      local_->options.streams > 0 ? local_->options.streams
                                  : streams_to_begin({path_length(streams_[0].socket()),
                                                      targets_[0]->bytes_per_second, window_of_this_host()}));
  Established made;
  made.local = local_;
  made.acceptor = acceptor_;
  made.connecting = true;
  made.hello = hello(0);
  made.route = way_.route;
  made.peer_name = way_.options.peer_name;
  for (const auto& target : targets_) made.bytes_per_second += target->bytes_per_second;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    made.streams.push_back({streams_[i].take_socket(), targets_[0]->nic, streams_[i].reply().nic,
                            local_->limit_of(targets_[0]->nic), targets_[0], streams_[i].take_tls()});
  }
  // Those that the path wants besides, and as many over each other pair of NICs; the connection is there
  // without them.
  for (std::size_t lane = 0; lane < targets_.size(); ++lane) {
    for (std::size_t i = lane == 0 ? streams_.size() : 0; i < streams; ++i)
      if (streams_.size() + made.wanted.size() < kMostStreams) made.wanted.push_back(targets_[lane]);
  }
  return std::make_unique<TcpConnection>(std::move(made));
}

void TcpConnecting::append_wait_handles(std::vector<pollfd>& handles) const {
  TimePoint now = local_->clock->now();
  Duration wait = deadline_.remaining();
  for (const Dial& stream : streams_) wait = std::min(wait, stream.append_wait_handles(handles, now));
  arm(timer_, wait, handles);
}

LinkConnecting::LinkConnecting(std::shared_ptr<const Local> local, Way way, std::shared_ptr<Backend> backend)
    : local_(std::move(local)),
      way_(std::move(way)),
      backend_(std::move(backend)),
      target_(target_of(way_, way_.from, way_.to)),
      deadline_(Deadline::after(way_.options.deadline, *local_->clock)),
      dial_(local_, target_, deadline_),
      timer_(make_timer()) {
  Hello hello;
  random_bytes(hello.connection);
  hello.label = way_.options.label;
  hello.kind = way_.route.kind;
  hello.emulated = way_.route.emulated;
  hello.carrier = backend_->carrier();
  hello.listener = way_.listener;
  dial_.greet(std::move(hello), 1);
  dial_.poll();
}

std::unique_ptr<Connection> LinkConnecting::poll() {
  if (!establishing_) {
    if (dial_.poll() != Dial::State::kReady) {
      if (deadline_.passed()) give_up_waiting(*target_, deadline_, dial_.last_trouble());
      return nullptr;
    }
    learn(way_.route, dial_.reply(), *target_);
    establishing_ =
        backend_->establish({dial_.take_socket(), true, way_.from, way_.to, way_.route, way_.options.label,
                             way_.options.peer_name, deadline_, local_->meters, way_.lanes});
  }
  return establishing_->poll();
}

void LinkConnecting::append_wait_handles(std::vector<pollfd>& handles) const {
  if (establishing_) return establishing_->append_wait_handles(handles);
  Duration wait = dial_.append_wait_handles(handles, local_->clock->now());
  arm(timer_, std::min(wait, deadline_.remaining()), handles);
}

}  // namespace tombolo::transport::tcp
