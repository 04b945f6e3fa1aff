// Rows of a training step: tokens, and the tokens that follow them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trainer/data/row_order.h"
#include "trainer/data/token_source.h"

namespace tombolo::trainer {

/// Cuts a source into rows. One thread at a time.
class Rows {
 public:
  /// Throws kInvalidUsage where the source is too small for one row of `context` tokens and its targets.
  Rows(std::unique_ptr<TokenSource> source, int context, RowOrder order);

  const TokenSource& source() const noexcept { return *source_; }
  TokenSource& source() noexcept { return *source_; }
  /// Whole rows that do not overlap but for the last target.
  std::uint64_t count() const noexcept;
  /// Row `row` of step `step`: `context` tokens, and as targets the same shifted by one. Throws kSystem when
  /// the source cannot be read or has shrunk, kInvalidUsage on a token outside the vocabulary.
  void read(std::uint64_t step, int global_batch, int row, int vocabulary, std::span<std::int32_t> tokens,
            std::span<std::int32_t> targets);

 private:
  std::unique_ptr<TokenSource> source_;
  std::uint64_t context_;
  RowOrder order_;
  std::vector<std::int32_t> row_;  ///< context + 1 tokens
};

}  // namespace tombolo::trainer
