// A byte-level BPE tokenizer as GPT-2's: every text has an encoding, and decoding gives it back byte by byte.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/data/byte_pairs.h"

namespace tombolo::trainer {

/// What a tokenizer's files say, whatever their format.
struct TokenizerParts {
  std::string name;                 ///< for messages: the file
  std::vector<std::string> tokens;  ///< bytes of each token by its number; empty: no token has this number
  std::vector<bool> special;        ///< by number: never made from text, such as <|endoftext|>
  std::vector<Merge> merges;
};

/// Immutable; any thread.
class Tokenizer {
 public:
  /// Limits that keep a stranger's file from taking all memory or time; GPT-2 needs 50257 and 128.
  static constexpr std::size_t kMostTokens = std::size_t{1} << 20;
  static constexpr std::size_t kLongestToken = 1024;

  /// Throws kInvalidUsage: too many or too long tokens, two of the same bytes, or a merge of tokens that do
  /// not exist or whose result is not their concatenation.
  explicit Tokenizer(TokenizerParts parts);
  /// The greatest token's number and 1.
  int vocabulary() const noexcept { return static_cast<int>(parts_.tokens.size()); }
  /// For messages: "tokenizer vocab.bpe".
  std::string name() const { return "tokenizer " + parts_.name; }
  /// The token of a single byte. Throws kInvalidUsage where the vocabulary has none.
  std::int32_t byte_token(unsigned char byte) const;
  const BytePairs& pairs() const noexcept { return pairs_; }

  /// The bytes of all tokens; those of a text may be cut within a UTF-8 character. Throws kInvalidUsage on a
  /// number that is no token.
  std::string decode(std::span<const std::int32_t> tokens) const;

 private:
  TokenizerParts parts_;
  std::array<std::int32_t, 256> bytes_{};  ///< tokens of single bytes; negative: none
  BytePairs pairs_;
};

}  // namespace tombolo::trainer
