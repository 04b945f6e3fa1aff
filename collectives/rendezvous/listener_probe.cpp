#include "collectives/rendezvous/listener_probe.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <cerrno>

#include "base/error.h"
#include "transport/kernel.h"

namespace tombolo::collectives {
namespace {

/// How long a probe keeps its connection while others wait for one: once it has its answer, and while it has
/// none, as of a host that is gone.
constexpr Duration kTurnWithAnswer = std::chrono::milliseconds(20);
constexpr Duration kTurnWithoutAnswer = std::chrono::milliseconds(200);

}  // namespace

ListenerProbe::Answer ListenerProbe::look() {
  if (last_ == Answer::kGone) return last_;
  if (!socket_) connect();
  if (last_ != Answer::kGone && socket_) last_ = outcome();
  return last_;
}

void ListenerProbe::connect() {
  asio::error_code wrong;
  const auto address = asio::ip::make_address(address_, wrong);
  if (wrong) fail(Cause::kRemote, "'{}' is no address in digits", address_);
  const asio::ip::tcp::endpoint endpoint(address, port_);
  transport::Kernel& kernel = transport::kernel();
  socket_ = transport::Descriptor(
      kernel.socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!socket_) fail_errno(errno, "socket, to ask whether a rank lives");
  if (kernel.connect(socket_.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0 ||
      errno == EINPROGRESS)
    return;
  last_ = errno == ECONNREFUSED ? Answer::kGone : Answer::kNone;
  socket_.reset();
}

ListenerProbe::Answer ListenerProbe::outcome() {
  transport::Kernel& kernel = transport::kernel();
  pollfd one{socket_.get(), POLLOUT | POLLRDHUP, 0};
  if (kernel.poll(&one, 1, 0) <= 0) return last_;
  int error = 0;
  socklen_t size = sizeof(error);
  kernel.getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error == ECONNREFUSED) return Answer::kGone;
  if (error == 0 && (one.revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0) return Answer::kListens;
  socket_.reset();  // the process has ended, or serves there and took this for a stranger: the next look asks
  return last_;
}

ListenerProbe::Answer ListenerProbes::look(std::size_t which) {
  ListenerProbe& probe = all_[which];
  if (probe.last() == ListenerProbe::Answer::kGone) return probe.last();
  if (!probe.connected()) {
    const TimePoint now = clock_.now();
    if (!find_room(now)) return probe.last();
    turns_.push_back({which, now});
  }
  const ListenerProbe::Answer answer = probe.look();
  std::erase_if(turns_, [&](const Turn& turn) { return !all_[turn.which].connected(); });
  return answer;
}

bool ListenerProbes::find_room(TimePoint now) {
  if (turns_.size() < kMost) return true;
  const auto over = std::ranges::find_if(turns_, [&](const Turn& turn) {
    const bool answered = all_[turn.which].last() != ListenerProbe::Answer::kNone;
    return now - turn.since >= (answered ? kTurnWithAnswer : kTurnWithoutAnswer);
  });
  if (over == turns_.end()) return false;
  all_[over->which].rest();
  turns_.erase(over);
  return true;
}

}  // namespace tombolo::collectives
