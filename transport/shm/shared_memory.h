// Memory that several processes of a host have mapped: a file without a name, which vanishes with its last
// user, however that process ends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/descriptor.h"

namespace tombolo::transport::shm {

/// Owns a mapping. It can be moved but not copied.
class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  std::byte* data() const noexcept { return data_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }

  /// Makes `bytes` zeros in a new file, sealed so that it cannot shrink under its readers. Throws kSystem.
  static SharedMemory create(std::size_t bytes, Descriptor& file);
  /// Maps what another process has made with create(), given that process's number for the file. Throws
  /// kUnsupported where this process may not open it (another user, another PID namespace), or where it is
  /// not such memory of that size.
  static SharedMemory open(std::int64_t process, int descriptor, std::size_t bytes);

 private:
  SharedMemory(int file, std::size_t bytes);
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tombolo::transport::shm
