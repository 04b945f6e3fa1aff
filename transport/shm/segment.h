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

/// The large message that is being copied, piece by piece: the end that is free takes the next. The
/// reader reads from the writer's memory, the writer writes to the reader's.
struct Pieces {
  /// Number of the message, from 1, that the writer may take pieces of too; 0: none.
  alignas(kLine) std::atomic<std::uint64_t> message;
  std::atomic<std::uint64_t> address;  ///< of the reader's buffer
  /// Pieces taken by either, below the message's number modulo 2^32 in the upper half.
  alignas(kLine) std::atomic<std::uint64_t> taken;
  /// Pieces that the writer has copied, ever.
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

/// One direction. But for the pieces, every field is written by one end and read by the other; each has a
/// cache line of its own.
struct Ring {
  /// Bytes that the reader has taken, ever.
  alignas(kLine) std::atomic<std::uint64_t> taken;
  /// Large messages whose bytes the reader has fetched from the writer's memory, ever.
  alignas(kLine) std::atomic<std::uint64_t> fetched;
  /// The reader sleeps until it is woken through the control channel.
  alignas(kLine) std::atomic<std::uint32_t> reader_sleeps;
  /// The writer has closed: what it has not sent by the ring is gone.
  alignas(kLine) std::atomic<std::uint32_t> writer_closed;
  Pieces pieces;
  alignas(kLine) std::byte bytes[kRingBytes];
};

struct Segment {
  /// Tells this segment from every other.
  alignas(kLine) std::array<std::byte, 16> token;
  Ring rings[2];  ///< [0]: written by the connecting end
};

/// A mapping of a segment. Moves only.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept : segment_(other.segment_) { other.segment_ = nullptr; }
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  Segment* operator->() const noexcept { return segment_; }
  explicit operator bool() const noexcept { return segment_ != nullptr; }

  /// A new segment of zeros without a name, in a file that cannot shrink under its readers. It vanishes with
  /// its last user, however that ends. Throws kSystem.
  static Mapping create(Descriptor& file);
  /// Another process's, by its number there. Throws kUnsupported where this process may not (another user,
  /// another PID namespace), or where what is there is no such segment.
  static Mapping open(std::int64_t process, int descriptor);

 private:
  explicit Mapping(int file);
  Segment* segment_ = nullptr;
};

}  // namespace tombolo::transport::shm
