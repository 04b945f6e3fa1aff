// What a connection waits for while nothing moves, and what it does meanwhile.
#include <poll.h>
#include <sys/timerfd.h>

#include <algorithm>

#include "transport/kernel.h"
#include "transport/sockets/socket.h"
#include "transport/tcp/connection.h"

namespace tombolo::transport::tcp {

using std::chrono::seconds;

void TcpConnection::check_idle() {
  const TimePoint now = clock().now();
  if (!liveness_.look(now))
    stalls_.quiet(*meter_, now, sender_.unwritten() || sender_.waiting(), receiver_.pending());
  if (refresh_.due(now)) look_at_streams(now);
  if (now < next_check() && !something_arrives(now)) return;
  liveness_.checked(now);
  repair(now);
  if (!failed()) check_timeouts(now);
  if (!failed() && fresh_send_) send_all();
}

/// Accepting end: looks for streams that come. The owner's wait handles stay ready until they are taken, so
/// that this cannot wait for the next check.
bool TcpConnection::something_arrives(TimePoint now) {
  if (connecting_ || !liveness_.arrivals_due(now, kRepairEvery)) return false;
  acceptor_->progress();
  return !inbox_->empty();
}

void TcpConnection::append_wait_handles(std::vector<pollfd>& handles) const {
  const Turns::Turn turn(turns_, Turns::Of::kLook);
  Duration wait = Duration::max();
  TimePoint now = clock().now();
  bool asleep = false;  // whether no descriptor would end the sleep
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const Stream& stream = streams_[i];
    if (stream.dial) wait = std::min(wait, stream.dial->append_wait_handles(handles, now));
    if (!stream.live()) {
      if (!connecting_) asleep = true;
      // An attempt begins with the next check; being woken before that would only turn the owner round and
      // round.
      if (connecting_ && shutdown_.open() && !stream.dial)
        wait = std::min(wait, std::max(reconnector_.due(i), next_check()) - now);
      continue;
    }
    bool may_send = true, may_receive = true;
    if (stream.path.limit && !failed()) {
      if (sender_.has_work(stream)) {
        Duration egress = stream.path.limit->egress.until_ready(now);
        may_send = egress == Duration::zero();
        if (!may_send) wait = std::min(wait, egress);
      }
      Duration ingress = stream.path.limit->ingress.until_ready(now);
      may_receive = ingress == Duration::zero();
      if (!may_receive) wait = std::min(wait, ingress);
    }
    short events = 0;
    const bool reads = stream.receive.wants_data() || (needs_acks() && stream.receive.may_read_ahead());
    if (failed() || (may_receive && reads)) events |= POLLIN;
    if (may_receive && reads && stream.io().buffered()) wait = Duration(1);
    if (!stream.is(StreamState::kHalfClosed) && sender_.has_work(stream) && may_send) events |= POLLOUT;
    if (events != 0) handles.push_back({stream.socket(), events, 0});
  }
  wait = std::min(wait, question_.append_wait_handles(handles, now));
  if (!connecting_ && !failed()) {
    handles.push_back({acceptor_->wait_handle(), POLLIN, 0});
    if (int handle = asleep ? inbox_->wait_handle() : -1; handle >= 0) handles.push_back({handle, POLLIN, 0});
  }
  if (failed() || announce_due_) wait = Duration(1);
  if (asleep || waits() || liveness_.is_asked()) wait = std::min(wait, kCheckEvery);
  if (wait == Duration::max()) return;
  wait = std::max(wait, Duration(1));  // zero would disarm the timer
  itimerspec at{};
  at.it_value.tv_sec = static_cast<time_t>(wait / seconds(1));
  at.it_value.tv_nsec = static_cast<long>((wait % seconds(1)).count());
  kernel().timerfd_settime(timer_.get(), 0, &at, nullptr);
  handles.push_back({timer_.get(), POLLIN, 0});
}

Duration TcpConnection::progress_in_background() noexcept {
  const Turns::Visit visit(turns_);
  if (visit.finds() != Turns::Visit::Finds::kNobody) return bootstrap::BackgroundProgress::kSoon;
  Duration again = bootstrap::BackgroundProgress::kIdle;
  if (!failed()) {
    bool wanted = sender_.unwritten() || sender_.unresolved() || fresh_send_ || ack_due() ||
                  !inbox_->empty() || busy_repairing();
    for (const Stream& stream : streams_) {
      if (!stream.live()) continue;
      wanted = wanted || (!stream.is(StreamState::kHalfClosed) && sender_.has_work(stream));
      pollfd broken{stream.socket(), POLLRDHUP, 0};
      wanted = wanted || kernel().poll(&broken, 1, 0) > 0;
    }
    // The bytes still lie in this kernel because the peer's host does not take them: the path may be dead.
    wanted = wanted || (sender_.unacknowledged() && std::ranges::any_of(streams_, [](const Stream& stream) {
                          return stream.live() && sockets::unanswered_for(stream.socket()) > Duration::zero();
                        }));
    if (wanted) {
      advance();
      again = busy_repairing() ? kRepairEvery : bootstrap::BackgroundProgress::kSoon;
    }
  }
  return again;
}

}  // namespace tombolo::transport::tcp
