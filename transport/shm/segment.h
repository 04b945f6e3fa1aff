// The memory that the two ends of a connection share: per direction a ring of records and an area for long
// payloads, and flags that say which end sleeps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "transport/descriptor.h"
#include "transport/shm/peer_memory.h"
#include "transport/shm/shared_memory.h"

namespace tombolo::transport::shm {

inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kPage = 4096;
/// Bytes of one direction's ring. A ring that stays within the second-level cache is what makes small
/// messages fast.
inline constexpr std::size_t kRingBytes = std::size_t{1} << 18;
/// Bytes of one direction's area for longer payloads. It is as large as a second-level cache: a line that is
/// used again soon still lies in the cache of the other end and has to be called back from there first, which
/// takes longer than to copy it.
inline constexpr std::size_t kAreaBytes = std::size_t{1} << 20;

/// One direction. Every field is written by one end and read by the other, and has a cache line of its own.
struct Ring {
  /// Bytes that the reader has taken since the beginning.
  alignas(kLine) std::atomic<std::uint64_t> taken;
  /// The same of the area.
  alignas(kLine) std::atomic<std::uint64_t> area_taken;
  /// Parts of messages that the reader has fetched from the writer's memory, since the beginning.
  alignas(kLine) std::atomic<std::uint64_t> fetched;
  /// The reader sleeps until it is woken through the control channel.
  alignas(kLine) std::atomic<std::uint32_t> reader_sleeps;
  /// What the reader's copies out of the ring cost, and its reading of the writer's memory (CopyCost).
  alignas(kLine) std::atomic<std::uint32_t> copy_cost;
  std::atomic<std::uint32_t> read_cost;
  /// One more than the number of the processor on which the reader was last; 0: not known.
  std::atomic<std::uint32_t> reader_processor;
  alignas(kLine) std::byte bytes[kRingBytes];
  alignas(kPage) std::byte area[kAreaBytes];
};

/// Has the kernel provide all memory of the area at once, which the first lap would else do page by page,
/// several times as slowly. Either end does so for its own mapping, before its first payload there.
void populate_area(Ring& ring) noexcept;

struct Segment {
  /// The accepting end's nonce, by which it tells this segment from every other.
  alignas(kLine) Nonce nonce;
  Ring rings[2];  ///< [0]: written by the connecting end
};

/// Owns a mapping of a segment. It can be moved but not copied.
class Mapping {
 public:
  Mapping() = default;

  Segment* operator->() const noexcept { return reinterpret_cast<Segment*>(memory_.data()); }
  explicit operator bool() const noexcept { return static_cast<bool>(memory_); }

  /// As SharedMemory's functions of these names, with the same errors.
  static Mapping create(Descriptor& file);
  static Mapping open(std::int64_t process, int descriptor);

 private:
  explicit Mapping(SharedMemory memory) : memory_(std::move(memory)) {}
  SharedMemory memory_;
};

}  // namespace tombolo::transport::shm
