#include "collectives/engine/abort_signal.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tombolo::collectives {
namespace {

/// How long telling the other ranks may take. Where the store is dead, they learn it by their own deadlines.
constexpr auto kPublishPatience = std::chrono::seconds(2);

std::string abort_key(const Rendezvous& rendezvous) {
  return rendezvous.prefix + "/abort";
}

}  // namespace

AbortSignal::AbortSignal() : wakeup_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wakeup_ < 0) fail_errno(errno, "eventfd for abort()");
}

AbortSignal::~AbortSignal() {
  ::close(wakeup_);
}

void AbortSignal::watch(const Rendezvous& rendezvous, Deadline deadline) {
  watch_ = std::make_unique<store::Watch>(rendezvous.address, rendezvous.port, rendezvous.secret,
                                          abort_key(rendezvous), deadline);
}

void AbortSignal::raise(const std::string& reason) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (!raised_) reason_ = reason;
  } catch (...) {  // without memory for the reason, abort without one
  }
  raised_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wakeup_, &one, sizeof(one));
}

std::optional<std::string> AbortSignal::raised() const {
  if (!is_raised()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return reason_;
}

AbortSignal::News AbortSignal::check() {
  if (!watch_) return News::kNone;
  switch (watch_->check()) {
    case store::Watch::News::kValue:
      note_ = AbortNote::decode(watch_->value());
      return News::kNote;
    case store::Watch::News::kStoreLost:
      return News::kStoreLost;
    case store::Watch::News::kStoreLeft:  // rank 0 is done with this communicator; the others may not be
    case store::Watch::News::kNone:
      break;
  }
  return News::kNone;
}

void AbortSignal::append_wait_handles(std::vector<pollfd>& handles) const {
  handles.push_back({wakeup_, POLLIN, 0});
  if (watch_ && watch_->descriptor() >= 0) handles.push_back({watch_->descriptor(), POLLIN, 0});
}

AbortNote AbortSignal::publish(const Rendezvous& rendezvous, const AbortNote& own) noexcept {
  try {
    const auto store = Store::connect(rendezvous.address, rendezvous.port, rendezvous.secret,
                                      Deadline::after(kPublishPatience), Log());
    return AbortNote::decode(store->claim(abort_key(rendezvous), own.encode()));
  } catch (...) {
    return own;
  }
}

}  // namespace tombolo::collectives
