// What a connection waits for while nothing moves, and what it does meanwhile.
#include <poll.h>
#include <sys/timerfd.h>

#include <algorithm>

#include "transport/bootstrap/socket.h"
#include "transport/kernel.h"
#include "transport/tcp/connection.h"

namespace tombolo::transport::tcp {

using std::chrono::seconds;

void TcpConnection::check_idle() noexcept {
  const TimePoint now = clock_->now();
  if (!moved_) stalls_.quiet(*meter_, now, sender_.unwritten() || sender_.waiting(), receiver_.pending());
  if (refresh_.due(now)) look_at_streams(now);
  if (moved_) {
    moved_ = false;
    last_moved_ = now;
    ping_after_ = Duration::zero();
  }
  if (now - last_checked_ < (busy_repairing() ? kRepairEvery : kCheckEvery)) return;
  last_checked_ = now;
  repair(now);
  if (!error_) check_timeouts(now);
  if (!error_ && fresh_send_) send_all();
}

void TcpConnection::append_wait_handles(std::vector<pollfd>& handles) const {
  const Turn turn(*this);
  Duration wait = Duration::max();
  TimePoint now = clock_->now();
  bool asleep = false;  // whether no descriptor would end the sleep
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const Stream& stream = streams_[i];
    if (stream.dial) wait = std::min(wait, stream.dial->append_wait_handles(handles, now));
    if (!stream.live) {
      if (!connecting_) asleep = true;
      if (connecting_ && !goodbye_) wait = std::min(wait, std::max(stream.dial_after - now, Duration(1)));
      continue;
    }
    bool may_send = true, may_receive = true;
    if (stream.limit && !error_) {
      if (sender_.has_work(i)) {
        Duration egress = stream.limit->egress.until_ready(now);
        may_send = egress == Duration::zero();
        if (!may_send) wait = std::min(wait, egress);
      }
      Duration ingress = stream.limit->ingress.until_ready(now);
      may_receive = ingress == Duration::zero();
      if (!may_receive) wait = std::min(wait, ingress);
    }
    short events = 0;
    const bool reads = receiver_.wants_data(i) || (needs_acks() && receiver_.may_read_ahead(i));
    if (error_ || (may_receive && reads)) events |= POLLIN;
    if (may_receive && reads && stream.io().buffered()) wait = Duration(1);
    if (!stream.peer_half_closed && sender_.has_work(i) && may_send) events |= POLLOUT;
    if (events != 0) handles.push_back({stream.socket.get(), events, 0});
  }
  if (asking_) wait = std::min(wait, asking_->append_wait_handles(handles, now));
  if (!connecting_ && !error_) {
    handles.push_back({acceptor_->wait_handle(), POLLIN, 0});
    if (int handle = asleep ? inbox_->wait_handle() : -1; handle >= 0) handles.push_back({handle, POLLIN, 0});
  }
  if (error_ || announce_due_) wait = Duration(1);
  if (asleep || waits()) wait = std::min(wait, kCheckEvery);
  if (wait == Duration::max()) return;
  wait = std::max(wait, Duration(1));  // zero would disarm the timer
  itimerspec at{};
  at.it_value.tv_sec = static_cast<time_t>(wait / seconds(1));
  at.it_value.tv_nsec = static_cast<long>((wait % seconds(1)).count());
  kernel().timerfd_settime(timer_.get(), 0, &at, nullptr);
  handles.push_back({timer_.get(), POLLIN, 0});
}

Duration TcpConnection::progress_in_background() noexcept {
  if (taken_.exchange(true, std::memory_order_acquire))
    return bootstrap::BackgroundProgress::kSoon;  // its owner is inside a call
  Duration again = bootstrap::BackgroundProgress::kIdle;
  if (calls_ != calls_seen_) {
    calls_seen_ = calls_;
    again = bootstrap::BackgroundProgress::kSoon;
  } else if (!error_) {
    bool wanted = sender_.unwritten() || sender_.unresolved() || fresh_send_ || ack_due() ||
                  !inbox_->empty() || busy_repairing();
    for (const Stream& stream : streams_) {
      if (!stream.live) continue;
      wanted = wanted || (!stream.peer_half_closed &&
                          sender_.has_work(static_cast<std::size_t>(&stream - streams_.data())));
      pollfd broken{stream.socket.get(), POLLRDHUP, 0};
      wanted = wanted || kernel().poll(&broken, 1, 0) > 0;
    }
    // The bytes still lie in this kernel because the peer's host does not take them: the path may be dead.
    wanted =
        wanted || (sender_.unacknowledged() && std::ranges::any_of(streams_, [](const Stream& stream) {
                     return stream.live && bootstrap::unanswered_for(stream.socket.get()) > Duration::zero();
                   }));
    if (wanted) {
      advance();
      again = busy_repairing() ? kRepairEvery : bootstrap::BackgroundProgress::kSoon;
    }
  }
  taken_.store(false, std::memory_order_release);
  return again;
}

}  // namespace tombolo::transport::tcp
