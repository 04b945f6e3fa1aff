#include "transport/sockets/sealed_bytes.h"

#include <openssl/bio.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/kernel.h"

namespace tombolo::transport::sockets {

// The buffers are not touched before they are needed, so that an idle stream's cost no memory.
SealedBytes::SealedBytes(int socket)
    : socket_(socket),
      out_(std::make_unique_for_overwrite<std::byte[]>(kOut + kReserve)),
      in_(std::make_unique_for_overwrite<std::byte[]>(kIn)) {}

int SealedBytes::put(bio_st* bio, const char* data, int size) {
  auto& self = *static_cast<SealedBytes*>(BIO_get_data(bio));
  const auto length = static_cast<std::size_t>(size);
  BIO_clear_retry_flags(bio);
  if (!self.pending()) self.out_begin_ = self.out_end_ = 0;
  if (length > self.out_limit_ - self.out_end_) {
    BIO_set_retry_write(bio);
    return -1;
  }
  std::memcpy(self.out_.get() + self.out_end_, data, length);
  self.out_end_ += length;
  return size;
}

int SealedBytes::get(bio_st* bio, char* data, int size) {
  auto& self = *static_cast<SealedBytes*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (self.in_begin_ == self.in_end_) {
    self.in_begin_ = self.in_end_ = 0;
    if (self.ended_) return 0;
    if (self.error_ != 0) return -1;
    ssize_t got = -1;
    errno = EAGAIN;
    if (self.may_receive_) {
      do got = kernel().recv(self.socket_, self.in_.get(), self.most_received_, MSG_DONTWAIT);
      while (got < 0 && errno == EINTR);
    }
    // The socket gave fewer bytes than there was room for, so the next call would find none; or it is enough
    // for one call of a handshake.
    self.may_receive_ = got == static_cast<ssize_t>(kIn);
    if (got == 0) {
      self.ended_ = true;
      return 0;
    }
    if (got < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK)
        BIO_set_retry_read(bio);
      else
        self.error_ = errno;
      return -1;
    }
    self.in_end_ = static_cast<std::size_t>(got);
  }
  const std::size_t count = std::min(static_cast<std::size_t>(size), self.in_end_ - self.in_begin_);
  std::memcpy(data, self.in_.get() + self.in_begin_, count);
  self.in_begin_ += count;
  return static_cast<int>(count);
}

long SealedBytes::control(bio_st* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

int SealedBytes::flush() noexcept {
  while (pending()) {
    const ssize_t sent =
        kernel().send(socket_, out_.get() + out_begin_, out_end_ - out_begin_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return -1;
    }
    out_begin_ += static_cast<std::size_t>(sent);
    written_ += static_cast<std::uint64_t>(sent);
  }
  out_begin_ = out_end_ = 0;
  return 0;
}

}  // namespace tombolo::transport::sockets
