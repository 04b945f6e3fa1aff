#include "transport/bootstrap/peer_watch.h"

#include <sys/socket.h>

#include <cerrno>

#include "base/error.h"

namespace tombolo::transport::bootstrap {
namespace {

// For what a peer that is gone had sent before.
constexpr Duration kDrainTime = std::chrono::seconds(2);

}  // namespace

std::string PeerWatch::look() noexcept {
  while (!closing()) {
    const ssize_t got = ::recv(socket_, word_.data() + word_bytes_, word_.size() - word_bytes_, MSG_DONTWAIT);
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
  switch (goodbye_->why) {
    case Goodbye::Why::kTooLarge:
      return fmt::format("the peer closed it: a message of {} bytes, but the receive posted for it takes {}",
                         goodbye_->size, goodbye_->capacity);
    case Goodbye::Why::kFailed:
      return fmt::format("the peer closed it after a failure of its own: {}", goodbye_->text);
    default:
      return "the peer closed the connection";
  }
}

void PeerWatch::prolong() noexcept {
  until_ = clock_->now() + kDrainTime;
}

void PeerWatch::say(const Goodbye& goodbye) noexcept {
  const auto bytes = goodbye.encode();
  // The link is empty but for this: it fits.
  [[maybe_unused]] const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void PeerWatch::shut() noexcept {
  ::shutdown(socket_, SHUT_RDWR);
}

}  // namespace tombolo::transport::bootstrap
