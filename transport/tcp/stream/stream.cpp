#include "transport/tcp/stream/stream.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/error.h"
#include "transport/kernel.h"
#include "transport/tcp/stream/receiver.h"

namespace tombolo::transport::tcp {

StreamLoss StreamLoss::of(int error_number) noexcept {
  if (error_number == Receiver::kDamaged) return {Why::kDamaged, error_number};
  if (error_number == sockets::TlsStream::kAltered) return {Why::kAltered, error_number};
  return {error_number == ETIMEDOUT ? Why::kSilent : Why::kError, error_number};
}

void Readiness::note(std::uint32_t events) noexcept {
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) hang_up = true;
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) in = true;
  if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) out = true;
}

void Stream::apply(StreamEvent event) {
  const auto next = next_state(state_, event);
  TOMBOLO_CHECK(next.has_value(), "state={} event={}", to_text(state_), to_text(event));
  state_ = *next;
}

void Stream::join(Descriptor socket, std::unique_ptr<sockets::TlsStream> tls, std::uint32_t epoch) {
  apply(StreamEvent::kJoined);
  // The peer may have begun epochs that this end did not; nothing was received in them.
  if (epoch - epoch_ > 1) note_epochs(epoch_ + 1, epoch - 1, 0);
  epoch_ = epoch;
  send.begin_epoch();
  receive.begin_epoch();
  socket_ = std::move(socket);
  tls_ = std::move(tls);
  ready = {};
}

std::string Stream::lose(const StreamLoss& loss) {
  const bool ended = loss.why == StreamLoss::Why::kEnded;
  apply(ended ? StreamEvent::kEnded : StreamEvent::kLost);
  if (!ended) {
    const ::linger hard{1, 0};
    kernel().setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  }
  socket_.reset();
  const std::unique_ptr<sockets::TlsStream> tls = std::move(tls_);
  switch (loss.why) {
    case StreamLoss::Why::kEnded:
      return "the peer's end was closed without a goodbye";
    case StreamLoss::Why::kGivenUp:
      return "the peer gave it up";
    case StreamLoss::Why::kDamaged:
      return "a checksum did not match";
    case StreamLoss::Why::kAltered:
      if (tls) return tls->trouble() + ": it was altered on its way";
      break;
    case StreamLoss::Why::kSilent:
    case StreamLoss::Why::kError:
      break;
  }
  return errno_text(loss.error_number);
}

void Stream::note_epochs(std::uint32_t first, std::uint32_t last, std::uint32_t count) {
  // A chunk in this epoch shows that the peer knows the counts of all epochs before.
  if (count != 0) forget_epochs();
  // Consecutive epochs without chunks share one summary, so that their number stays bounded however often the
  // stream breaks.
  if (count == 0 && !epoch_summaries_.empty() && epoch_summaries_.back().count == 0) {
    epoch_summaries_.back().last_epoch = last;
  } else {
    epoch_summaries_.push_back({first, last, count});
  }
}

}  // namespace tombolo::transport::tcp
