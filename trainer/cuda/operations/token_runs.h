// The order in which the embedding's gradient is added up, made on the host for each micro-batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tombolo::trainer::cuda {

/// Sorts the places of tokens by token, for EmbedBackward: see `order` and `runs` there. Keeps its counters
/// from call to call. One thread at a time.
class TokenRuns {
 public:
  /// Tokens are from 0 to vocabulary - 1.
  explicit TokenRuns(int vocabulary);

  /// Throws kInvalidUsage naming the first token that is outside the vocabulary; `what` says which tokens
  /// they are.
  void check(std::span<const std::int32_t> tokens, const char* what) const;
  /// A counting sort of tokens that check() has passed. order: one entry per token; runs: one more.
  void sort(std::span<const std::int32_t> tokens, std::span<std::int32_t> order,
            std::span<std::int32_t> runs);

 private:
  std::vector<std::int32_t> next_;  ///< by token: how many there are, then the place of the next
};

}  // namespace tombolo::trainer::cuda
