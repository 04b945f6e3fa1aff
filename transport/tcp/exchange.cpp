#include "transport/tcp/exchange.h"

#include <sys/socket.h>

#include <cerrno>

namespace tombolo::transport::tcp {

Step MessageReader::read(int socket, std::size_t wanted) {
  while (bytes_.size() < wanted) {
    std::size_t have = bytes_.size();
    bytes_.resize(wanted);
    ssize_t got = recv(socket, bytes_.data() + have, wanted - have, MSG_DONTWAIT);
    int reason = errno;
    bytes_.resize(have + static_cast<std::size_t>(got > 0 ? got : 0));
    if (got == 0) return Step::kEnded;
    if (got < 0) {
      if (reason == EINTR) continue;
      if (reason == EAGAIN || reason == EWOULDBLOCK) return Step::kAgain;
      error_ = reason;
      return Step::kError;
    }
  }
  return Step::kDone;
}

Step MessageWriter::write(int socket) {
  while (at_ < bytes_.size()) {
    ssize_t sent = send(socket, bytes_.data() + at_, bytes_.size() - at_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Step::kAgain;
      error_ = errno;
      return Step::kError;
    }
    at_ += static_cast<std::size_t>(sent);
  }
  return Step::kDone;
}

}  // namespace tombolo::transport::tcp
