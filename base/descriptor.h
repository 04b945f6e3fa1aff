// An owned file descriptor.
#pragma once

#include <unistd.h>

#include <utility>

namespace tombolo {

/// Closes the descriptor by `Close` when it is destroyed. Can be moved. May be used from any thread, but by
/// one at a time.
template <int (*Close)(int)>
class OwnedDescriptor {
 public:
  OwnedDescriptor() = default;
  explicit OwnedDescriptor(int fd) noexcept : fd_(fd) {}
  OwnedDescriptor(OwnedDescriptor&& other) noexcept : fd_(other.release()) {}
  OwnedDescriptor& operator=(OwnedDescriptor&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~OwnedDescriptor() { reset(); }

  /// The descriptor; negative where there is none. This object still owns it.
  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  /// Gives the descriptor to the caller, who must close it.
  int release() noexcept { return std::exchange(fd_, -1); }
  /// Closes what it holds and takes over `fd`.
  void reset(int fd = -1) noexcept {
    if (fd_ >= 0) Close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

using Descriptor = OwnedDescriptor<::close>;

}  // namespace tombolo
