// The replay buffer: keeps copies of sent messages until the peer has acknowledged them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tombolo::transport::tcp {

/// A ring of bytes, given out and taken back in the same order. Its memory is reserved at the first use, and
/// only as much becomes resident as was ever in use at once: when the ring is empty it starts over at its
/// beginning, which is still in the cache. Used by one thread at a time.
class ReplayBuffer {
 public:
  /// `capacity` in bytes; 0 = gives out nothing.
  explicit ReplayBuffer(std::size_t capacity) noexcept : capacity_(capacity) {}
  ~ReplayBuffer();
  ReplayBuffer(const ReplayBuffer&) = delete;
  ReplayBuffer& operator=(const ReplayBuffer&) = delete;

  /// Returns `bytes` contiguous bytes, or null where there is no room (or no memory) now.
  std::byte* take(std::size_t bytes) noexcept;
  /// The end of what was taken so far; for give_back_to().
  std::uint64_t position() const noexcept { return taken_; }
  /// Gives back everything that was taken before `position` was asked for.
  void give_back_to(std::uint64_t position) noexcept { given_back_ = position; }
  std::size_t used() const noexcept { return static_cast<std::size_t>(taken_ - given_back_); }
  std::size_t capacity() const noexcept { return capacity_; }
  /// Allowed only before the first use.
  void set_capacity(std::size_t bytes) noexcept { capacity_ = bytes; }

 private:
  std::size_t capacity_;
  std::byte* memory_ = nullptr;
  std::uint64_t taken_ = 0, given_back_ = 0;  // counts of bytes, skipped ones at the end included
  std::uint64_t start_ = 0;                   // the count that lies at the ring's beginning
};

}  // namespace tombolo::transport::tcp
