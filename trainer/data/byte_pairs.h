// Byte-pair encoding (Sennrich et al., arXiv 1508.07909) of one piece of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace tombolo::trainer {

/// Two neighbouring tokens that become one.
struct Merge {
  std::int32_t left, right;
  std::int32_t result;
  std::int32_t rank;  ///< of several possible merges the one of lowest rank is made
};

/// All merges of a tokenizer. Immutable; any thread.
class BytePairs {
 public:
  /// Of two merges of the same pair the one of lower rank counts.
  explicit BytePairs(const std::vector<Merge>& merges);

  /// Merges until no pair of neighbours can be merged: always the pair of lowest rank, of equal ones the
  /// first. O(n log n) for n tokens.
  void merge(std::vector<std::int32_t>& tokens) const;

 private:
  struct Result {
    std::int32_t rank, token;
  };
  const Result* find(std::int32_t left, std::int32_t right) const;

  std::unordered_map<std::uint64_t, Result> pairs_;
};

}  // namespace tombolo::trainer
