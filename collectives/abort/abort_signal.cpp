#include "collectives/abort/abort_signal.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>

namespace tombolo::collectives {
namespace {

std::string abort_key(const Rendezvous& rendezvous) {
  return rendezvous.prefix + "/abort";
}

}  // namespace

std::string presence_key(const Rendezvous& rendezvous, int rank) {
  return fmt::format("{}/present/{}", rendezvous.prefix, rank);
}

std::string read_key(const Rendezvous& rendezvous, std::string_view what, int rank) {
  return fmt::format("{}/{}/read-by/{}", rendezvous.prefix, what, rank);
}

AbortSignal::AbortSignal() : wakeup_(transport::kernel().eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wakeup_) fail_errno(errno, "eventfd for abort()");
}

void AbortSignal::watch(const Rendezvous& rendezvous, int rank, Deadline deadline) {
  watch_ = rendezvous.store->watch(abort_key(rendezvous), presence_key(rendezvous, rank), deadline);
}

void AbortSignal::raise(const std::string& reason) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (!raised_) reason_ = reason;
  } catch (...) {  // without memory for the reason, abort without one
  }
  raised_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = transport::kernel().write(wakeup_.get(), &one, sizeof(one));
}

std::optional<std::string> AbortSignal::raised() const {
  if (!is_raised()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return reason_;
}

AbortSignal::News AbortSignal::check() {
  if (!watch_) return News::kNone;
  switch (watch_->check()) {
    case StoreWatch::News::kValue:
      note_ = AbortNote::decode(watch_->value());
      return News::kNote;
    case StoreWatch::News::kStoreLost:
      return News::kStoreLost;
    case StoreWatch::News::kStoreLeft:  // rank 0 is done with this communicator; the others may not be
    case StoreWatch::News::kNone:
      break;
  }
  return News::kNone;
}

bool AbortSignal::reaches_store() const noexcept {
  return watch_ && watch_->descriptor() >= 0;
}

bool AbortSignal::store_has_ended(Deadline deadline) {
  return watch_ && watch_->has_ended(deadline);
}

void AbortSignal::ask(std::string_view key) {
  if (watch_) watch_->ask(key);
}

std::optional<bool> AbortSignal::answer() {
  return watch_ ? watch_->answer() : std::nullopt;
}

AbortSignal::News AbortSignal::await(Deadline deadline) {
  for (;;) {
    const bool last_look = deadline.passed();
    const News news = check();
    if (news != News::kNone || last_look || !watch_ || watch_->descriptor() < 0) return news;
    pollfd one{watch_->descriptor(), POLLIN, 0};
    transport::kernel().poll(&one, 1, deadline.poll_milliseconds());
  }
}

void AbortSignal::append_wait_handles(std::vector<pollfd>& handles) const {
  handles.push_back({wakeup_.get(), POLLIN, 0});
  if (watch_ && watch_->descriptor() >= 0) handles.push_back({watch_->descriptor(), POLLIN, 0});
}

AbortNote AbortSignal::publish(const Rendezvous& rendezvous, const AbortNote& own) noexcept {
  try {
    const auto store =
        rendezvous.store->reconnect(Deadline::after(kPublishPatience, *rendezvous.clock), Log());
    return publish(*store, rendezvous, own);
  } catch (...) {
    return own;
  }
}

AbortNote AbortSignal::publish(Store& store, const Rendezvous& rendezvous, const AbortNote& own) {
  return AbortNote::decode(store.claim(abort_key(rendezvous), own.encode()));
}

}  // namespace tombolo::collectives
