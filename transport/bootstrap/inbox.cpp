#include "transport/bootstrap/inbox.h"

#include <sys/eventfd.h>

#include <cstdint>

#include "transport/kernel.h"

namespace tombolo::transport::bootstrap {

void Inbox::put(AuthenticatedStream stream) {
  const std::lock_guard lock(mutex_);
  streams_.push_back(std::move(stream));
  waiting_.store(streams_.size(), std::memory_order_release);
  const std::uint64_t one = 1;
  if (event_) kernel().write(event_.get(), &one, sizeof one);
}

std::optional<AuthenticatedStream> Inbox::take() {
  const std::lock_guard lock(mutex_);
  if (streams_.empty()) return std::nullopt;
  AuthenticatedStream first = std::move(streams_.front());
  streams_.pop_front();
  waiting_.store(streams_.size(), std::memory_order_release);
  if (streams_.empty() && event_) {
    std::uint64_t count = 0;
    kernel().read(event_.get(), &count, sizeof count);
  }
  return first;
}

int Inbox::wait_handle() {
  const std::lock_guard lock(mutex_);
  if (!event_) event_ = Descriptor(kernel().eventfd(streams_.empty() ? 0 : 1, EFD_NONBLOCK | EFD_CLOEXEC));
  return event_.get();
}

}  // namespace tombolo::transport::bootstrap
