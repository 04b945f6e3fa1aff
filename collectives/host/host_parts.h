// Parts of buffers, and how an all-reduce among the ranks of one host is divided: each rank sums up a part of
// the vector.
#pragma once

#include <algorithm>
#include <cstddef>

namespace tombolo::collectives {

/// Bytes of a buffer.
struct Chunk {
  std::size_t begin = 0, bytes = 0;
};

/// Part `rank` of a chunk that all parts make up. All but the last ones are equally long, in whole cache
/// lines.
inline Chunk host_part(Chunk chunk, int rank, int ranks) noexcept {
  constexpr std::size_t kLine = 64;
  const std::size_t lines = kLine * static_cast<std::size_t>(ranks);
  const std::size_t most = (chunk.bytes + lines - 1) / lines * kLine;
  const std::size_t begin = std::min(chunk.bytes, most * static_cast<std::size_t>(rank));
  return {chunk.begin + begin, std::min(chunk.bytes - begin, most)};
}

/// The bytes that step `step` moves of what is moved in steps of `most` bytes.
inline Chunk host_step(Chunk whole, std::size_t step, std::size_t most) noexcept {
  const std::size_t begin = std::min(whole.bytes, step * most);
  return {whole.begin + begin, std::min(whole.bytes - begin, most)};
}

}  // namespace tombolo::collectives
