// A ring of records in shared memory, with one writer and one reader. A record is a header and its payload in
// whole cache lines; a small message takes one line, so that only one line moves between the two cores.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "transport/shm/segment.h"

namespace tombolo::transport::shm {

enum class RecordType : std::uint16_t {
  kWhole = 1,  ///< a message; payload follows
  kPiece = 2,  ///< the next part of a message; payload follows
  kFetch = 3,  ///< the next part, up to kFetchPart bytes, for the reader to fetch at `address` of the writer
  kGoodbye = 4,  ///< the writer closed on purpose; `reason` says why
  kSkip = 5,     ///< nothing, up to the ring's end
};

/// What stands in front of a record's payload. The stamp is written last and makes the record valid.
struct Record {
  std::uint32_t stamp = 0;
  RecordType type = RecordType::kWhole;
  std::uint16_t reason = 0;
  std::uint64_t length = 0;   ///< payload bytes in the ring
  std::uint64_t total = 0;    ///< bytes of the message
  std::uint64_t address = 0;  ///< kFetch only
};
static_assert(sizeof(Record) == 32);
inline constexpr std::size_t kPayloadOfFirstLine = kLine - sizeof(Record);
/// The longest payload of one record; it is limited so that several records fit in the ring.
inline constexpr std::size_t kLongestRecord = kRingBytes / 4;
/// The bytes of a kFetch, of the last one of a message fewer. They are read by one system call, and other
/// connections of the same thread wait meanwhile.
inline constexpr std::size_t kFetchPart = 256 * 1024;
/// How many parts may wait to be fetched. They keep a reader busy for as long as a time slice of the
/// scheduler, if both ends run on one processor.
inline constexpr std::uint64_t kMostToFetch = 32;

inline std::size_t record_bytes(std::size_t payload) noexcept {
  return (sizeof(Record) + payload + kLine - 1) / kLine * kLine;
}
/// The stamp of a record at that position. It is never 0, which marks a line that was not written yet.
inline std::uint32_t stamp_at(std::uint64_t position) noexcept {
  return static_cast<std::uint32_t>(position / kLine) | 0x8000'0000U;
}

class RingWriter {
  static constexpr std::size_t kCleared = 2 * kLine;  // after the last record

 public:
  explicit RingWriter(Ring& ring) noexcept : ring_(&ring) {}

  /// Copies `record.length` payload bytes from `payload`. False where there is no room now.
  bool write(Record record, const std::byte* payload) noexcept {
    const std::size_t size = record_bytes(record.length);
    const std::size_t to_end = kRingBytes - at(position_);
    // A record lies in one piece. The two lines after it must be free, because their stamps are cleared.
    const std::size_t skipped = size > to_end ? to_end : 0;
    if (!has_room(skipped + size + kCleared + kept_beyond(record.type))) return false;
    if (skipped != 0) {
      publish({0, RecordType::kSkip, 0, to_end - sizeof(Record), 0, 0}, nullptr, to_end);
    }
    publish(record, payload, size);
    return true;
  }
  /// Whether a record with that much payload fits, wherever the ring's end lies.
  bool has_room_for(std::size_t payload) noexcept {
    return has_room(2 * record_bytes(payload) + kCleared + kept_beyond(RecordType::kPiece));
  }
  /// Bytes that the reader has taken since the beginning, as last seen.
  std::uint64_t taken() const noexcept { return taken_; }

 private:
  /// Room that a record leaves free, so that payload keeps neither a kFetch nor the goodbye waiting.
  static constexpr std::size_t kept_beyond(RecordType type) noexcept {
    return type == RecordType::kGoodbye ? 0 : type == RecordType::kFetch ? kLine : (kMostToFetch + 1) * kLine;
  }
  static std::size_t at(std::uint64_t position) noexcept { return position % kRingBytes; }
  bool has_room(std::size_t bytes) noexcept {
    if (position_ + bytes - taken_ <= kRingBytes) return true;
    // A reader that claims more than was written only harms itself.
    taken_ = std::min(ring_->taken.load(std::memory_order_acquire), position_);
    return position_ + bytes - taken_ <= kRingBytes;
  }
  void publish(Record record, const std::byte* payload, std::size_t size) noexcept {
    std::byte* line = ring_->bytes + at(position_);
    if (position_ + size >= cleared_) clear(position_ + size);
    const std::uint32_t stamp = stamp_at(position_);
    record.stamp = 0;
    if (payload != nullptr && record.length > 0) std::memcpy(line + sizeof record, payload, record.length);
    std::memcpy(line + sizeof stamp, reinterpret_cast<const std::byte*>(&record) + sizeof stamp,
                sizeof record - sizeof stamp);
    std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(line))
        .store(stamp, std::memory_order_release);
    position_ += size;
    // No reader waits for this clearing, so it can be done now. Without it, a record of one line would have
    // to fetch the next line from the reader's cache before its own stamp becomes visible.
    if (position_ + kLine >= cleared_) clear(position_ + kLine);
  }
  void clear(std::uint64_t position) noexcept {
    const std::uint32_t nothing = 0;
    std::memcpy(ring_->bytes + at(position), &nothing, sizeof nothing);
    cleared_ = position + kLine;
  }

  Ring* ring_;
  std::uint64_t position_ = 0;
  std::uint64_t cleared_ = kLine;  // up to here, no line from `position_` on bears an old stamp
  std::uint64_t taken_ = 0;        // as last seen
};

class RingReader {
 public:
  explicit RingReader(Ring& ring) noexcept : ring_(&ring) {}

  /// The next record, if there is one. Its payload is payload(). A record whose length points outside the
  /// ring is returned with length kRingBytes, which no valid one has.
  std::optional<Record> peek() noexcept {
    for (;;) {
      std::byte* line = ring_->bytes + position_ % kRingBytes;
      if (std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(line))
              .load(std::memory_order_acquire) != stamp_at(position_)) {
        return std::nullopt;
      }
      Record record;
      std::memcpy(&record, line, sizeof record);
      const std::size_t to_end = kRingBytes - position_ % kRingBytes;
      if (record.length > to_end - sizeof(Record)) record.length = kRingBytes;
      if (record.type != RecordType::kSkip) return record;
      take(to_end);
    }
  }
  bool has_any() const noexcept {
    return std::atomic_ref<std::uint32_t>(
               *reinterpret_cast<std::uint32_t*>(ring_->bytes + position_ % kRingBytes))
               .load(std::memory_order_acquire) == stamp_at(position_);
  }
  const std::byte* payload() const noexcept { return ring_->bytes + position_ % kRingBytes + sizeof(Record); }
  void pop(const Record& record) noexcept { take(record_bytes(record.length)); }
  /// Whether `taken` was published since the last call: the writer may sleep until there is room.
  bool made_room() noexcept { return std::exchange(made_room_, false); }

 private:
  void take(std::size_t bytes) noexcept {
    position_ += bytes;
    // The counter is published rarely, because its cache line would otherwise move between the cores with
    // every small message.
    if (position_ - told_ < kRingBytes / 8) return;
    told_ = position_;
    ring_->taken.store(position_, std::memory_order_release);
    made_room_ = true;
  }

  Ring* ring_;
  std::uint64_t position_ = 0, told_ = 0;
  bool made_room_ = false;
};

}  // namespace tombolo::transport::shm
