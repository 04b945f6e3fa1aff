// Moving one whole message of known size over a non-blocking stream, however many pieces it comes in.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "transport/sockets/step.h"
#include "transport/sockets/stream_io.h"

namespace tombolo::transport::sockets {

/// Reads until a wanted number of bytes is there; keeps what has come so far. Never reads further, because
/// payload may follow.
class MessageReader {
 public:
  /// kEnded: the peer closed first. kError: errno is in error().
  Step read(const StreamIo& from, std::size_t wanted);
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  int error() const noexcept { return error_; }
  void clear() noexcept { bytes_.clear(); }

 private:
  std::vector<std::byte> bytes_;
  int error_ = 0;
};

class MessageWriter {
 public:
  void set(std::vector<std::byte> bytes) {
    bytes_ = std::move(bytes);
    at_ = 0;
  }
  Step write(const StreamIo& to);
  int error() const noexcept { return error_; }

 private:
  std::vector<std::byte> bytes_;
  std::size_t at_ = 0;
  int error_ = 0;
};

}  // namespace tombolo::transport::sockets
