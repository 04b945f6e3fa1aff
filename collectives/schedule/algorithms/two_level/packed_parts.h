// Parts of a buffer that travel as one message.
#pragma once

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
