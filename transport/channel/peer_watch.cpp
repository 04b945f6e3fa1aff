#include "transport/channel/peer_watch.h"

#include <sys/socket.h>

#include <cerrno>

#include "base/error.h"
#include "transport/kernel.h"

namespace tombolo::transport::channel {
namespace {

// For how long bytes are still read that a peer had sent before it went.
constexpr Duration kDrainTime = std::chrono::seconds(2);

}  // namespace

std::string PeerWatch::look() {
  while (!closing()) {
    const ssize_t got =
        kernel().recv(socket_, word_.data() + word_bytes_, word_.size() - word_bytes_, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    prolong();
    if (got <= 0) {
      ended_ = true;
      break;
    }
    word_bytes_ += static_cast<std::size_t>(got);
    if (word_bytes_ < word_.size()) continue;
    try {
      goodbye_ = Goodbye::decode(word_);
    } catch (const Error& error) {
      return error.what();
    }
  }
  return {};
}

std::string PeerWatch::ending() const {
  if (!goodbye_) return "the peer vanished: its end was closed without a goodbye (did its process die?)";
  return peer_closed(goodbye_->reason, goodbye_->size, goodbye_->capacity, goodbye_->text);
}

void PeerWatch::prolong() noexcept {
  until_ = clock_->now() + kDrainTime;
}

void PeerWatch::say(const Goodbye& goodbye) noexcept {
  const auto bytes = goodbye.encode();
  // Nothing else waits to be sent on the control channel, so the goodbye fits.
  [[maybe_unused]] const auto sent =
      kernel().send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void PeerWatch::shut() noexcept {
  kernel().shutdown(socket_, SHUT_RDWR);
}

}  // namespace tombolo::transport::channel
