#include "transport/bootstrap/way.h"

#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/units.h"
#include "transport/kernel.h"

namespace tombolo::transport::bootstrap {

std::shared_ptr<const Target> target_of(const Way& way, const Offer& from, const Offer& to) {
  auto target = std::make_shared<Target>();
  target->nic = from.nic;
  target->local_address = from.address;
  target->peer_nic = to.nic;
  target->tls = way.tls;
  target->peer = sockets::SocketAddress::parse(to.address, to.port);
  target->bytes_per_second =
      static_cast<double>(std::min(from.rate_bits_per_second, to.rate_bits_per_second)) / 8;
  const std::string& peer = way.options.peer_name;
  target->description =
      fmt::format("connect to {}{}{} (NIC {} {} -> {} {})", peer, peer.empty() ? "host " : " on host ",
                  way.route.peer_host.empty() ? "?" : way.route.peer_host, from.nic, from.address,
                  to.nic.empty() ? "?" : to.nic, sockets::to_text(target->peer));
  return target;
}

Hello hello_of(const Way& way, std::uint64_t sender) {
  Hello hello;
  random_bytes(hello.connection);
  hello.label = way.options.label;
  hello.kind = way.route.kind;
  hello.emulated = way.route.emulated;
  hello.carrier = way.carrier;
  hello.listener = way.listener;
  hello.process = way.process;
  hello.sender = sender;
  hello.resumable = way.route.resumable;
  return hello;
}

Dialing::Dialing(std::shared_ptr<const Local> local, const Way& way, std::shared_ptr<const Target> target,
                 const Hello& hello, std::size_t streams)
    : local_(std::move(local)),
      target_(std::move(target)),
      deadline_(Deadline::after(way.options.deadline, *local_->clock)),
      gone_after_(
          sockets::same_address(target_->peer, sockets::SocketAddress::parse(target_->local_address, 0))
              ? Duration::zero()
              : kGoneAfter),
      timer_(kernel().timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
  if (!timer_) fail_errno(errno, "timerfd_create");
  for (std::size_t i = 0; i < streams; ++i) {
    Hello own = hello;
    own.stream = static_cast<std::uint16_t>(i);
    own.streams = static_cast<std::uint16_t>(streams);
    streams_.emplace_back(local_, target_, deadline_).greet(std::move(own), streams);
  }
  for (Dial& stream : streams_) stream.poll();
}

bool Dialing::poll() {
  bool ready = true;
  for (Dial& stream : streams_) ready &= stream.poll() == Dial::State::kReady;
  if (ready) return true;
  for (const Dial& stream : streams_) {
    if (!stream.refused() || stream.refused_for() < gone_after_) continue;
    fail(Cause::kRemote,
         "{}: nothing listens there any more (refused{}): the peer has closed its listener, or its process "
         "has ended; its log says why",
         target_->description,
         gone_after_ == Duration::zero() ? std::string()
                                         : " for " + format_seconds(to_seconds(stream.refused_for())));
  }
  if (!deadline_.passed()) return false;
  std::string trouble = "no answer";
  for (const Dial& stream : streams_)
    if (!stream.last_trouble().empty()) trouble = stream.last_trouble();
  fail(Cause::kTimeout,
       "{}: not connected within {}; last: {}. If these NICs are on separate networks, give them different "
       "fabrics in a cluster file (docs/cluster-file.md)",
       target_->description, format_seconds(to_seconds(deadline_.allowed())), trouble);
}

void Dialing::append_wait_handles(std::vector<pollfd>& handles) const {
  const TimePoint now = local_->clock->now();
  Duration wait = deadline_.remaining();
  for (const Dial& stream : streams_) wait = std::min(wait, stream.append_wait_handles(handles, now));
  // Zero would disarm the timer.
  wait = std::max<Duration>(wait, std::chrono::microseconds(1));
  itimerspec at{};
  at.it_value.tv_sec = static_cast<time_t>(wait / std::chrono::seconds(1));
  at.it_value.tv_nsec = static_cast<long>((wait % std::chrono::seconds(1)).count());
  kernel().timerfd_settime(timer_.get(), 0, &at, nullptr);
  handles.push_back({timer_.get(), POLLIN, 0});
}

void Dialing::complete(Route& route) const {
  const Reply& reply = streams_[0].reply();
  if (route.peer_host.empty()) route.peer_host = reply.host;
  if (route.peer_nic.empty()) route.peer_nic = reply.nic;
  route.resumable = route.resumable && reply.resumable;
  route.legs_listener = reply.legs_listener;
  route.peer_address = sockets::to_text(target_->peer);
}

}  // namespace tombolo::transport::bootstrap
