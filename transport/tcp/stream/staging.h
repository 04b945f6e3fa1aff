// What was read of one stream and is not used yet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "transport/tcp/stream/wire.h"

namespace tombolo::transport::tcp {

/// Bytes that are used in the order in which they came, in memory that grows only where the next frame has to
/// wait and what comes behind it is kept. Has no memory before the first reset(). Used by one thread at a
/// time.
class Staging {
 public:
  /// Takes eight 8 KiB messages with one read; copying them within the second-level cache costs less than
  /// more calls.
  static constexpr std::size_t kUsualBytes = 64 * 1024 + 8 * kHeaderBytes;

  /// Drops what it holds, and goes back to the usual size. How far frames were scanned stays. New memory is
  /// not touched before it is needed, so that an idle connection's stays unused. Throws std::bad_alloc.
  void reset();

  std::size_t size() const noexcept { return end_ - begin_; }
  /// The bytes that it holds, the next to use first.
  std::span<const std::byte> unused() const noexcept { return {memory_.get() + begin_, size()}; }
  /// So many of them, at most size(), are used.
  void use(std::size_t bytes) noexcept { begin_ += bytes; }

  /// Where the next bytes may be read to: all memory behind what it holds.
  std::span<std::byte> room() noexcept { return {memory_.get() + end_, capacity_ - end_}; }
  /// So many bytes were read to there.
  void add(std::size_t bytes) noexcept { end_ += bytes; }
  /// Makes all room that is not held one piece.
  void move_to_front() noexcept;
  /// The same, and takes twice the memory where there is no room. Throws std::bad_alloc.
  void make_room();

  /// The next frame, of which so many bytes are unused or still to come, waits: those behind it are to be
  /// scanned before their turn, as far as they were not.
  void scan_behind(std::size_t bytes) noexcept { scanned_ = std::max(scanned_, begin_ + bytes); }
  /// The header of the next frame to scan; nothing where not all of it has come.
  std::optional<std::span<const std::byte, kHeaderBytes>> to_scan() const noexcept;
  /// That frame, with its payload, has so many bytes.
  void scanned(std::size_t bytes) noexcept { scanned_ += bytes; }
  /// No frame waits, and what follows may come without going through here.
  void end_scan() noexcept { scanned_ = 0; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0, end_ = 0;  // of what it holds
  std::size_t scanned_ = 0;  // where the next header to scan lies while a frame waits; else below begin
};

}  // namespace tombolo::transport::tcp
