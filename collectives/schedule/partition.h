// How vectors are cut into parts and pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tombolo::collectives {

/// Elements [begin, end).
struct Interval {
  std::size_t begin = 0, end = 0;
  constexpr std::size_t count() const noexcept { return end - begin; }
};

/// Part `index` of `parts` nearly equal ones.
constexpr Interval part_of(Interval whole, std::size_t index, std::size_t parts) noexcept {
  // Quotient and remainder are multiplied apart, because count * index could overflow.
  const std::size_t quotient = whole.count() / parts, rest = whole.count() % parts;
  const auto border = [&](std::size_t i) { return whole.begin + quotient * i + (i < rest ? i : rest); };
  return {border(index), border(index + 1)};
}

/// Part `index` of as many as there are weights, about as large as its weight says. Not all of them are 0.
inline Interval weighted_part_of(Interval whole, std::size_t index,
                                 std::span<const std::uint32_t> weights) noexcept {
  std::uint64_t before = 0, all = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (i < index) before += weights[i];
    all += weights[i];
  }
  // Apart, as above.
  const std::size_t quotient = whole.count() / all, rest = whole.count() % all;
  const auto border = [&](std::uint64_t sum) { return whole.begin + quotient * sum + rest * sum / all; };
  return {border(before), border(before + weights[index])};
}

/// How many pieces of at most `piece_bytes` hold `count` elements; at least 1.
constexpr std::size_t pieces_of(std::size_t count, std::size_t element_bytes,
                                std::size_t piece_bytes) noexcept {
  const std::size_t most = piece_bytes / element_bytes > 0 ? piece_bytes / element_bytes : 1;
  return count <= most ? 1 : (count + most - 1) / most;
}

/// Piece `index` of those; nothing beyond the last one.
constexpr Interval piece_of(std::size_t count, std::size_t element_bytes, std::size_t piece_bytes,
                            std::size_t index) noexcept {
  const std::size_t pieces = pieces_of(count, element_bytes, piece_bytes);
  return index < pieces ? part_of({0, count}, index, pieces) : Interval{count, count};
}

}  // namespace tombolo::collectives
