#include "transport/channel/channel_set_up.h"

#include <sys/timerfd.h>

#include <cerrno>

#include "transport/kernel.h"

namespace tombolo::transport::channel {

TestTimer::TestTimer(const Clock* clock)
    : clock_(clock), timer_(kernel().timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {
  if (!timer_) fail_errno(errno, "timerfd_create");
}

void TestTimer::begin(Duration allowed) {
  allowed_ = allowed;
  until_ = clock_->now() + allowed_;
  itimerspec at{};
  const Duration wait = std::max<Duration>(allowed_, std::chrono::milliseconds(1));
  at.it_value.tv_sec = static_cast<time_t>(wait / std::chrono::seconds(1));
  at.it_value.tv_nsec = static_cast<long>((wait % std::chrono::seconds(1)).count());
  kernel().timerfd_settime(timer_.get(), 0, &at, nullptr);
}

void note_first_nic_pair(ControlChannel& channel) {
  if (!channel.connecting || channel.nic_pairs.empty() ||
      channel.from.address == channel.nic_pairs[0].first.address)
    return;
  channel.route.reason +=
      fmt::format("; the two ends agree over {} -> {}", channel.from.nic, channel.route.peer_address);
  channel.route.peer_address = channel.nic_pairs[0].second.address;
}

}  // namespace tombolo::transport::channel
