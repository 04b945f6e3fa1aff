#include "transport/bootstrap/listening_sockets.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "transport/kernel.h"
#include "transport/sockets/socket.h"

namespace tombolo::transport::bootstrap {

const Log& ListeningSocket::log() const noexcept {
  return ends.front()->local->log;
}

std::shared_ptr<const sockets::Tls> ListeningSocket::tls() const noexcept {
  for (const LocalEnd* end : ends)
    if (end->local->tls) return end->local->tls;
  return nullptr;
}

std::shared_ptr<const LocalEnd> ListeningSockets::open(std::shared_ptr<const Local> local, Endpoint endpoint,
                                                       std::uint64_t& next_key) {
  const auto end = std::make_shared<LocalEnd>(LocalEnd{std::move(local), std::move(endpoint), false});
  std::map<std::string, std::size_t> seen;
  try {
    for (Offer& offer : end->endpoint.offers) {
      const std::size_t nth = seen[offer.address]++;
      auto found = std::ranges::find_if(sockets_, [&](const auto& entry) {
        return entry.second.address == offer.address && entry.second.nth == nth;
      });
      if (found == sockets_.end()) {
        ListeningSocket made;
        made.socket = sockets::listen_on(offer.nic, offer.address, made.port);
        made.nic = offer.nic;
        made.address = offer.address;
        made.nth = nth;
        const std::uint64_t key = next_key++;
        if (paused_until_ == TimePoint{} && !watch(key, made)) fail_errno(errno, "epoll_ctl");
        found = sockets_.emplace(key, std::move(made)).first;
      }
      found->second.ends.push_back(end.get());
      offer.port = found->second.port;
    }
  } catch (...) {
    leave(*end);
    throw;
  }
  return end;
}

void ListeningSockets::leave(const LocalEnd& end) noexcept {
  for (auto at = sockets_.begin(); at != sockets_.end();) {
    std::erase(at->second.ends, &end);
    at = at->second.ends.empty() ? sockets_.erase(at) : std::next(at);
  }
}

const ListeningSocket* ListeningSockets::find(std::uint64_t key) const noexcept {
  const auto found = sockets_.find(key);
  return found == sockets_.end() ? nullptr : &found->second;
}

bool ListeningSockets::watch(std::uint64_t key, const ListeningSocket& socket) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = key;
  return kernel().epoll_ctl(epoll_, EPOLL_CTL_ADD, socket.socket.get(), &event) == 0 || errno == EEXIST;
}

void ListeningSockets::pause(TimePoint until) noexcept {
  paused_until_ = until;
  for (const auto& [key, socket] : sockets_)
    kernel().epoll_ctl(epoll_, EPOLL_CTL_DEL, socket.socket.get(), nullptr);
}

void ListeningSockets::resume(TimePoint now, Duration again) noexcept {
  if (paused_until_ == TimePoint{} || now < paused_until_) return;
  bool all = true;
  for (const auto& [key, socket] : sockets_) all &= watch(key, socket);
  paused_until_ = all ? TimePoint{} : now + again;
}

}  // namespace tombolo::transport::bootstrap
