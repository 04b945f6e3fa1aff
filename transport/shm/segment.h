// The memory that the two ends of a connection share: one ring of records per direction, and flags that say
// which end sleeps.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/descriptor.h"

namespace tombolo::transport::shm {

inline constexpr std::size_t kLine = 64;
/// Bytes of one direction's ring. A ring that stays within the second-level cache is what makes small
/// messages fast.
inline constexpr std::size_t kRingBytes = std::size_t{1} << 18;

/// The large message that both ends copy piece by piece; whichever end is free takes the next piece. The
/// reader reads from the writer's memory, the writer writes to the reader's.
struct Pieces {
  /// Number (from 1) of the message of which the writer may take pieces too; 0: none.
  alignas(kLine) std::atomic<std::uint64_t> message;
  std::atomic<std::uint64_t> address;  ///< of the reader's buffer
  /// The low half counts the pieces that either end has taken; the upper half holds the message's number
  /// modulo 2^32.
  alignas(kLine) std::atomic<std::uint64_t> taken;
  /// Pieces that the writer has copied since the beginning.
  alignas(kLine) std::atomic<std::uint64_t> written;

  /// Takes the next piece of `count`; nothing where none is left, or the message is another by now.
  std::optional<std::uint32_t> take(std::uint64_t number, std::uint32_t count) noexcept {
    std::uint64_t seen = taken.load(std::memory_order_relaxed);
    do {
      if (seen >> 32 != (number & UINT32_MAX) || static_cast<std::uint32_t>(seen) >= count)
        return std::nullopt;
    } while (!taken.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel));
    return static_cast<std::uint32_t>(seen);
  }
};

/// One direction. Except for the pieces, every field is written by one end and read by the other, and has a
/// cache line of its own.
struct Ring {
  /// Bytes that the reader has taken since the beginning.
  alignas(kLine) std::atomic<std::uint64_t> taken;
  /// Large messages whose bytes the reader has fetched from the writer's memory, since the beginning.
  alignas(kLine) std::atomic<std::uint64_t> fetched;
  /// The reader sleeps until it is woken through the control channel.
  alignas(kLine) std::atomic<std::uint32_t> reader_sleeps;
  /// The writer has closed: what it did not send through the ring can no longer be fetched.
  alignas(kLine) std::atomic<std::uint32_t> writer_closed;
  Pieces pieces;
  alignas(kLine) std::byte bytes[kRingBytes];
};

struct Segment {
  /// Random bytes that tell this segment from every other.
  alignas(kLine) std::array<std::byte, 16> token;
  Ring rings[2];  ///< [0]: written by the connecting end
};

/// Owns a mapping of a segment. It can be moved but not copied.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept : segment_(other.segment_) { other.segment_ = nullptr; }
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  Segment* operator->() const noexcept { return segment_; }
  explicit operator bool() const noexcept { return segment_ != nullptr; }

  /// Makes a new segment of zeros in a file without a name, sealed so that it cannot shrink under its
  /// readers. It vanishes with its last user, however that process ends. Throws kSystem.
  static Mapping create(Descriptor& file);
  /// Maps the segment of another process, given that process's number for the file. Throws kUnsupported where
  /// this process may not open it (another user, another PID namespace), or where it is not such a segment.
  static Mapping open(std::int64_t process, int descriptor);

 private:
  explicit Mapping(int file);
  Segment* segment_ = nullptr;
};

}  // namespace tombolo::transport::shm
