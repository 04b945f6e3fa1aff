// One direction of an emulated long line: frames go in as they arrive, and come out when a line of that rate,
// length and loss would deliver them. The time is an argument.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "base/clock.h"
#include "tools/emulation/segments.h"

namespace tombolo::emulation {

struct LineOptions {
  double bits_per_second = 0;     ///< of Ethernet frames, as tbf counts them
  Duration delay{};               ///< one way
  double loss = 0;                ///< probability that a packet is lost, independent of the others
  std::uint64_t queue_bytes = 0;  ///< most bytes that may wait for the line; 0 = default_queue_bytes()
  std::uint64_t seed = 0;         ///< seed of the losses
};

/// The queue that a router would have before such a line: the bytes of a round trip, or of 20 ms where that
/// is longer, and room for two super-packets.
std::uint64_t default_queue_bytes(const LineOptions& options) noexcept;

/// Counts packets as a wire would: each segment of a super-packet is one.
struct LineCounters {
  std::uint64_t packets = 0, bytes = 0;  ///< delivered; bytes of Ethernet frames
  std::uint64_t lost = 0;                ///< dropped at random, by LineOptions::loss
  std::uint64_t overflowed = 0;          ///< dropped because the queue was full
  std::uint64_t cut = 0;                 ///< dropped because they came, or were on the line, while it was cut
};

class DelayLine {
 public:
  explicit DelayLine(const LineOptions& options);

  /// Room for the next frame, kMostFrame bytes; afterwards enter() says how long the frame was. It is never
  /// empty: enter() counts a frame for which the line has no room as overflowed.
  std::span<std::byte> space() noexcept;
  void enter(std::size_t frame_bytes, TimePoint now);

  /// The time at which the next frame comes out; nothing where none is on the line.
  std::optional<TimePoint> next() const noexcept;
  /// The frame that has come out by `now`, or nothing. It stays until pop().
  std::span<const std::byte> front(TimePoint now) const noexcept;
  void pop() noexcept;

  /// Cuts the line or restores it. While it is cut, frames that enter are dropped; cutting drops the frames
  /// on the line.
  void cut(bool cut) noexcept;
  const LineCounters& counters() const noexcept { return counters_; }

 private:
  struct Entry {
    TimePoint out;
    std::size_t at, bytes;  ///< in store_
    Segments segments;
  };

  bool has_room() const noexcept;
  /// Takes over a frame that lies at the store's head.
  void keep(std::size_t frame_bytes, const Segments& segments, TimePoint out);
  /// Draws how many packets pass before the next one is lost.
  std::uint64_t draw_gap();

  LineOptions options_;
  std::uint64_t queue_bytes_;
  Duration per_byte(double bytes) const noexcept;
  std::size_t capacity_;
  std::unique_ptr<std::byte[]> store_;  ///< a ring; every frame lies in one piece
  std::size_t head_ = 0;                ///< where the next frame goes
  std::deque<Entry> entries_;
  TimePoint free_{};  ///< when the line will have sent everything that waits for it
  bool cut_ = false;
  bool overflow_ = false;  ///< space() found no room
  std::mt19937_64 random_;
  std::uint64_t until_loss_ = 0;
  LineCounters counters_;
  std::vector<std::byte> spare_;  ///< holds a frame without room, or one that is being cut
};

}  // namespace tombolo::emulation
