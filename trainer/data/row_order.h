// Which row of the data a step trains on: a function of its number alone, so that every parallel
// configuration, number of ranks and resumed run sees the same rows.
#pragma once

#include <cstdint>
#include <optional>

namespace tombolo::trainer {

/// How rows follow each other.
struct RowOrder {
  /// Without one, rows follow each other as they stand in the data. With one, each epoch has an order of its
  /// own, which depends on seed and epoch alone.
  std::optional<std::uint64_t> shuffle_seed;
};

/// Position of the first token of row `row` of step `step`, in data of `size` tokens, at least context + 2.
/// Rows have context + 1 tokens: the last is only a target.
///   in order: ((step x batch + row) x context) mod (size - context - 1)
///   shuffled: with n = (size - 1) / context rows in an epoch and i = step x batch + row,
///             permuted(seed, i / n, i mod n, n) x context
std::uint64_t row_start(RowOrder order, std::uint64_t step, std::uint64_t batch, std::uint64_t row,
                        std::uint64_t context, std::uint64_t size) noexcept;

/// A keyed permutation of 0 ... count - 1: for each (seed, epoch) another, and each index exactly once. A
/// balanced Feistel network over the smallest even number of bits that holds `count`, with cycle walking
/// (Black and Rogaway, Ciphers with Arbitrary Finite Domains, 2002): what lies outside is encrypted again.
/// Needs no memory, and on average fewer than 4 passes.
std::uint64_t permuted(std::uint64_t seed, std::uint64_t epoch, std::uint64_t index,
                       std::uint64_t count) noexcept;

}  // namespace tombolo::trainer
