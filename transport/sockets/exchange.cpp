#include "transport/sockets/exchange.h"

#include <sys/socket.h>

#include <cerrno>

namespace tombolo::transport::sockets {

Step MessageReader::read(const StreamIo& from, std::size_t wanted) {
  while (bytes_.size() < wanted) {
    std::size_t have = bytes_.size();
    bytes_.resize(wanted);
    iovec part{bytes_.data() + have, wanted - have};
    ssize_t got = from.read({&part, 1});
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

Step MessageWriter::write(const StreamIo& to) {
  while (at_ < bytes_.size()) {
    iovec part{bytes_.data() + at_, bytes_.size() - at_};
    ssize_t sent = to.write({&part, 1});
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Step::kAgain;
      error_ = errno;
      return Step::kError;
    }
    at_ += static_cast<std::size_t>(sent);
  }
  if (to.pending() && to.tls->flush() != 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Step::kAgain;
    error_ = errno;
    return Step::kError;
  }
  return Step::kDone;
}

}  // namespace tombolo::transport::sockets
