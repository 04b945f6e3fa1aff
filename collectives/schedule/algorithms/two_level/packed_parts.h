// Parts of a buffer that travel as one message.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "collectives/schedule/schedule.h"

namespace tombolo::collectives {

struct Part {
  Piece piece;
  std::size_t bytes = 0;
};

inline std::size_t bytes_of(const std::vector<Part>& parts) noexcept {
  std::size_t all = 0;
  for (const Part& one : parts) all += one.bytes;
  return all;
}

/// Whether each begins where the one before it ends.
inline bool adjoining(const std::vector<Part>& parts) noexcept {
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const Piece end = parts[i - 1].piece + parts[i - 1].bytes;
    if (parts[i].piece.buffer != end.buffer || parts[i].piece.offset != end.offset) return false;
  }
  return true;
}

/// Bytes: parts of no more are copied together into one message, since two copies cost less than a message.
inline constexpr std::size_t kWorthPacking = std::size_t{8} << 10;

/// Parts as messages: what lies one behind the other travels together, cut where it would be longer than
/// `most`; small pieces that do not are packed. Who sends and who receives must give parts that lie alike to
/// each other.
inline std::vector<std::vector<Part>> messages_of(const std::vector<Part>& parts, std::size_t most) {
  most = std::max<std::size_t>(most, 1);
  std::vector<Part> runs;
  for (Part part : parts) {
    while (part.bytes > 0) {
      const bool joins = !runs.empty() && runs.back().bytes < most && adjoining({runs.back(), part});
      if (!joins) runs.push_back({part.piece, 0});
      const std::size_t taken = std::min(part.bytes, most - runs.back().bytes);
      runs.back().bytes += taken;
      part = {part.piece + taken, part.bytes - taken};
    }
  }
  std::vector<std::vector<Part>> messages;
  std::size_t packed = 0;  // bytes of the last message, where more may be packed into it
  for (const Part& run : runs) {
    const bool small = run.bytes <= kWorthPacking;
    if (!small || packed == 0 || packed + run.bytes > most) {
      messages.emplace_back();
      packed = 0;
    }
    messages.back().push_back(run);
    packed = small ? packed + run.bytes : 0;
  }
  return messages;
}

/// All of them one behind the other: where they are, if they lie like that, or else copied to scratch.
inline Part pack(ScheduleBuilder& builder, const std::vector<Part>& parts) {
  const std::size_t all = bytes_of(parts);
  if (!parts.empty() && adjoining(parts)) return {parts.front().piece, all};
  const Piece packed = builder.scratch(all);
  std::size_t at = 0;
  for (const Part& one : parts) {
    builder.copy(packed + at, one.piece, one.bytes);
    at += one.bytes;
  }
  return {packed, all};
}

/// Receives one message with all of them into their places.
inline void receive_packed(ScheduleBuilder& builder, int peer, const std::vector<Part>& parts) {
  const std::size_t all = bytes_of(parts);
  if (!parts.empty() && adjoining(parts)) return builder.receive(peer, parts.front().piece, all);
  const Piece packed = builder.scratch(all);
  builder.receive(peer, packed, all);
  std::size_t at = 0;
  for (const Part& one : parts) {
    builder.copy(one.piece, packed + at, one.bytes);
    at += one.bytes;
  }
}

}  // namespace tombolo::collectives
