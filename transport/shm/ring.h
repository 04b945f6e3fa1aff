// A ring of records in shared memory, with one writer and one reader. A record is a header and its payload in
// whole cache lines; a small message takes one line, so that only one line moves between the two cores. Long
// payloads lie beside the ring, one behind the other in an area that is used over and over too.
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
#include "transport/shm/steps.h"

namespace tombolo::transport::shm {

enum class RecordType : std::uint16_t {
  kWhole = 1,    ///< a message; payload follows
  kPiece = 2,    ///< the next part of a message; payload follows
  kFetch = 3,    ///< the next part of a message, for the reader to fetch at `address` of the writer's memory
  kGoodbye = 4,  ///< the writer closed on purpose; `reason` says why
  kSkip = 5,     ///< nothing, up to the ring's end
};

/// What stands in front of a record's payload. The stamp is written last and makes the record valid.
struct Record {
  std::uint32_t stamp = 0;
  RecordType type = RecordType::kWhole;
  std::uint16_t reason = 0;
  std::uint64_t length = 0;   ///< payload bytes; kFetch: bytes to be fetched
  std::uint64_t total = 0;    ///< bytes of the message
  std::uint64_t address = 0;  ///< kFetch: in the writer's memory; a payload in the area: its position there
};
static_assert(sizeof(Record) == 32);
inline constexpr std::size_t kPayloadOfFirstLine = kLine - sizeof(Record);
/// The longest payload that lies behind its record in the ring. A longer one lies in the area.
inline constexpr std::size_t kLongestInRing = kRingBytes / 32;
/// The longest payload of one record. The parts of a message are this long, so that its reader copies one
/// while its writer copies the next.
inline constexpr std::size_t kLongestRecord = kAreaBytes / 16;
/// The bytes of the area that even the shortest lap uses.
inline constexpr std::size_t kShortestLap = kAreaBytes / 4;
/// The most bytes of a kFetch. They are read by one system call, and other connections of the same thread
/// wait meanwhile.
inline constexpr std::size_t kFetchPart = 256 * 1024;
/// How many parts may wait to be fetched. They keep a reader busy for as long as a time slice of the
/// scheduler, if both ends run on one processor.
inline constexpr std::uint64_t kMostToFetch = 32;
/// The length that RingReader gives a record whose own none can have.
inline constexpr std::uint64_t kNoLength = UINT64_MAX;

inline std::size_t whole_lines(std::size_t bytes) noexcept {
  return (bytes + kLine - 1) / kLine * kLine;
}
/// Whether the record has a payload that lies in the area.
inline bool in_area(const Record& record) noexcept {
  return record.type != RecordType::kFetch && record.length > kLongestInRing;
}
/// The bytes of the ring that a record with such a payload takes.
inline std::size_t record_bytes(std::size_t payload) noexcept {
  return payload > kLongestInRing ? kLine : whole_lines(sizeof(Record) + payload);
}
inline std::size_t record_bytes(const Record& record) noexcept {
  return record.type == RecordType::kFetch ? kLine : record_bytes(record.length);
}
/// The stamp of a record at that position. It is never 0, which marks a line that was not written yet.
inline std::uint32_t stamp_at(std::uint64_t position) noexcept {
  return static_cast<std::uint32_t>(position / kLine) | 0x8000'0000U;
}

/// The bytes that all connections of this process have written to their areas.
inline std::atomic<std::uint64_t> area_traffic{0};
/// How many of those lie between two uses of a line, where there are so many: several second-level caches, so
/// that neither end's holds the line any more, but no more of the third-level cache than that takes.
std::uint64_t traffic_of_lap() noexcept;
/// Makes it so many, whatever the machine's caches; 0: what follows from them. For tests.
void set_traffic_of_lap(std::uint64_t bytes) noexcept;

class RingWriter {
  static constexpr std::size_t kCleared = 2 * kLine;  // after the last record

 public:
  explicit RingWriter(Ring& ring) noexcept : ring_(&ring) {}

  /// Copies `record.length` payload bytes from `payload`. False where there is no room now.
  bool write(Record record, const std::byte* payload) noexcept {
    const std::size_t size = record_bytes(record);
    const std::size_t to_end = kRingBytes - at(position_);
    // A record lies in one piece. The two lines after it must be free, because their stamps are cleared.
    const std::size_t skipped = size > to_end ? to_end : 0;
    if (!has_room(skipped + size + kCleared + kept_beyond(record.type)) ||
        (in_area(record) && !area_has_room(record.length)))
      return false;
    if (skipped != 0) {
      publish({0, RecordType::kSkip, 0, to_end - sizeof(Record), 0, 0}, to_end);
    }
    if (in_area(record)) {
      if (area_position_ == 0) populate_area(*ring_);
      record.address = place_in_area(record.length);
      const std::uint64_t traffic = area_traffic.fetch_add(record.length, std::memory_order_relaxed);
      if (record.address % kAreaBytes == 0) lap_traffic_ = traffic;
      step();
      std::memcpy(ring_->area + record.address % kAreaBytes, payload, record.length);
      area_position_ = record.address + whole_lines(record.length);
    } else if (payload != nullptr && record.length > 0) {
      std::memcpy(ring_->bytes + at(position_) + sizeof record, payload, record.length);
    }
    step();
    publish(record, size);
    return true;
  }
  /// Whether a record with that much payload fits, wherever the ring's end lies.
  bool has_room_for(std::size_t payload) noexcept {
    return has_room(2 * record_bytes(payload) + kCleared + kept_beyond(RecordType::kPiece)) &&
           (payload <= kLongestInRing || area_has_room(payload));
  }

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
  /// The position of the next payload. It lies in one piece. With many connections a lap is shorter than the
  /// area, since they all share the caches.
  std::uint64_t place_in_area(std::size_t payload) const noexcept {
    const std::size_t in_lap = area_position_ % kAreaBytes;
    const bool next_lap = payload > kAreaBytes - in_lap ||
                          (in_lap >= kShortestLap &&
                           area_traffic.load(std::memory_order_relaxed) - lap_traffic_ >= traffic_of_lap());
    return next_lap ? area_position_ + (kAreaBytes - in_lap) : area_position_;
  }
  bool area_has_room(std::size_t payload) noexcept {
    const std::uint64_t end = place_in_area(payload) + payload;
    if (end - area_taken_ <= kAreaBytes) return true;
    area_taken_ = std::min(ring_->area_taken.load(std::memory_order_acquire), area_position_);
    return end - area_taken_ <= kAreaBytes;
  }
  void publish(Record record, std::size_t size) noexcept {
    std::byte* line = ring_->bytes + at(position_);
    if (position_ + size >= cleared_) clear(position_ + size);
    const std::uint32_t stamp = stamp_at(position_);
    std::memcpy(line + sizeof stamp, reinterpret_cast<const std::byte*>(&record) + sizeof stamp,
                sizeof record - sizeof stamp);
    step();
    std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(line))
        .store(stamp, std::memory_order_release);
    step();
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
  std::uint64_t position_ = 0, area_position_ = 0;
  std::uint64_t lap_traffic_ = 0;             // when the area's lap began
  std::uint64_t cleared_ = kLine;             // up to here, no line from `position_` on bears an old stamp
  std::uint64_t taken_ = 0, area_taken_ = 0;  // as last seen
};

class RingReader {
 public:
  explicit RingReader(Ring& ring) noexcept : ring_(&ring) {}

  /// The next record, if there is one. Its payload is at payload(). A record whose length points outside the
  /// ring, or that is longer than any, is returned with kNoLength.
  std::optional<Record> peek() noexcept {
    for (;;) {
      std::byte* line = ring_->bytes + position_ % kRingBytes;
      if (std::atomic_ref<std::uint32_t>(*reinterpret_cast<std::uint32_t*>(line))
              .load(std::memory_order_acquire) != stamp_at(position_)) {
        return std::nullopt;
      }
      Record record;
      step();
      std::memcpy(&record, line, sizeof record);
      const std::size_t to_end = kRingBytes - position_ % kRingBytes;
      // No writer skips the whole ring: one that did could keep its reader here for ever.
      if (record.type == RecordType::kSkip && to_end < kRingBytes) {
        take(to_end);
        continue;
      }
      // Only a payload in the ring could reach beyond it.
      if (record.type == RecordType::kSkip || record.length > std::max(kFetchPart, kLongestRecord) ||
          record_bytes(record) > to_end || (in_area(record) && !may_lie_at(record.address, record.length)))
        record.length = kNoLength;
      else if (in_area(record) && !std::exchange(area_populated_, true))
        populate_area(*ring_);
      return record;
    }
  }
  bool has_any() const noexcept {
    return std::atomic_ref<std::uint32_t>(
               *reinterpret_cast<std::uint32_t*>(ring_->bytes + position_ % kRingBytes))
               .load(std::memory_order_acquire) == stamp_at(position_);
  }
  /// Of the record that peek() returned, whose length must be one that a valid record has.
  const std::byte* payload(const Record& record) const noexcept {
    if (in_area(record)) return ring_->area + record.address % kAreaBytes;
    return ring_->bytes + position_ % kRingBytes + sizeof(Record);
  }
  void pop(const Record& record) noexcept {
    if (in_area(record)) take_from_area(record);
    take(record_bytes(record));
  }
  /// Whether there is more room since the last call: the writer may sleep until there is.
  bool made_room() noexcept { return std::exchange(made_room_, false); }

 private:
  void take(std::size_t bytes) noexcept {
    position_ += bytes;
    // The counter is published rarely, because its cache line would otherwise move between the cores with
    // every small message.
    if (position_ - told_ < kRingBytes / 8) return;
    told_ = position_;
    step();
    ring_->taken.store(position_, std::memory_order_release);
    made_room_ = true;
  }
  /// Whether a payload that is said to lie there lies in the area, behind those before it.
  bool may_lie_at(std::uint64_t place, std::size_t payload) const noexcept {
    return place >= area_position_ && place - area_position_ < kAreaBytes &&
           payload <= kAreaBytes - place % kAreaBytes;
  }
  void take_from_area(const Record& record) noexcept {
    area_position_ = record.address + whole_lines(record.length);
    if (area_position_ - area_told_ < kAreaBytes / 8) return;
    area_told_ = area_position_;
    step();
    ring_->area_taken.store(area_position_, std::memory_order_release);
    made_room_ = true;
  }

  Ring* ring_;
  std::uint64_t position_ = 0, told_ = 0;
  std::uint64_t area_position_ = 0, area_told_ = 0;
  bool made_room_ = false, area_populated_ = false;
};

}  // namespace tombolo::transport::shm
