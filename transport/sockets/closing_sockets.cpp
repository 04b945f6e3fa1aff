#include "transport/sockets/closing_sockets.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <new>
#include <utility>

#include "transport/kernel.h"
#include "transport/sockets/socket.h"

namespace tombolo::transport::sockets {
namespace {

constexpr std::size_t kPiece = 16 * 1024;
// An acknowledgement raises no event, so the sockets are checked at this short interval.
constexpr int kLookEveryMs = 1;

bool would_block() noexcept {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

ClosingSockets::ClosingSockets(Duration longest, const Clock& clock, Room room)
    : longest_(longest), clock_(&clock), room_(room) {
  // No allocation fails later, where a socket would have to be reset.
  leaving_.reserve(room_.sockets);
  arrived_.reserve(room_.sockets);
}

ClosingSockets::~ClosingSockets() {
  for (;;) {
    progress();
    const TimePoint now = clock_->now();
    std::erase_if(leaving_, [now](const Leaving& one) {
      return now - one.since >= kShortest && now - one.moved >= kQuiet;
    });
    if (leaving_.empty()) return;
    kernel().poll(nullptr, 0, kLookEveryMs);
  }
}

/// Returns false once the peer's kernel has acknowledged everything, including the end of the stream, or
/// takes nothing any more.
bool ClosingSockets::step(Leaving& one, TimePoint now) noexcept {
  const int socket = one.socket.get();
  if (!one.rest.empty()) {
    const ssize_t sent = kernel().send(socket, one.rest.data(), one.rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && !would_block()) return false;
    if (sent > 0) one.rest.erase(one.rest.begin(), one.rest.begin() + sent);
    if (one.rest.empty()) kernel().shutdown(socket, SHUT_WR);
  }
  // Bytes that come now have no reader, so they are dropped.
  std::array<std::byte, kPiece> dropped;
  ssize_t got = 1;
  for (std::size_t piece = 0; got > 0 && piece < kMostRead / kPiece; ++piece)
    got = kernel().recv(socket, dropped.data(), dropped.size(), MSG_DONTWAIT);
  if (got > 0) return true;
  if (got < 0 && !would_block()) return false;  // after the peer's end (0) its process may still read
  int unacknowledged = 0;
  if (is_over(socket) || kernel().unacknowledged(socket, &unacknowledged) != 0) return false;
  if (unacknowledged != one.unacknowledged) one.moved = now;
  one.unacknowledged = unacknowledged;
  return unacknowledged != 0 || !one.rest.empty();
}

void ClosingSockets::add(Descriptor socket, std::span<const std::byte> last_words,
                         Duration longest) noexcept {
  const TimePoint now = clock_->now();
  Leaving one{std::move(socket), {}, now, now, std::min(longest, longest_), 0};
  try {
    one.rest.assign(last_words.begin(), last_words.end());
  } catch (const std::bad_alloc&) {
    // Without them the peer sees that the stream ends.
  }
  if (one.rest.empty()) kernel().shutdown(one.socket.get(), SHUT_WR);
  while (step(one, clock_->now())) {
    {
      const std::lock_guard lock(mutex_);
      if (kept_ < room_.sockets) {
        ++kept_;
        arrived_.push_back(std::move(one));
        return;
      }
    }
    if (make_room()) continue;
    progress();
    kernel().poll(nullptr, 0, kLookEveryMs);
  }
}

void ClosingSockets::take_arrived() noexcept {
  const std::lock_guard lock(mutex_);
  std::ranges::move(arrived_, std::back_inserter(leaving_));
  arrived_.clear();
}

bool ClosingSockets::make_room() noexcept {
  const std::lock_guard sweep(sweep_mutex_);
  take_arrived();
  if (leaving_.empty()) return true;
  if (room_.when_full == WhenFull::kWait && clock_->now() - leaving_.front().since < kShortest) return false;
  leaving_.erase(leaving_.begin());
  const std::lock_guard lock(mutex_);
  --kept_;
  return true;
}

bool ClosingSockets::progress() noexcept {
  const std::lock_guard sweep(sweep_mutex_);
  take_arrived();
  const TimePoint now = clock_->now();
  const std::size_t closed = std::erase_if(
      leaving_, [&](Leaving& one) { return now - one.since >= one.longest || !step(one, now); });
  const std::lock_guard lock(mutex_);
  kept_ -= closed;
  return kept_ != 0;
}

}  // namespace tombolo::transport::sockets
