// Text to tokens, piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "trainer/data/text_splitter.h"
#include "trainer/data/tokenizer.h"

namespace tombolo::trainer {

/// Remembers what pieces became, up to a bounded number. One thread at a time.
class TextEncoder {
 public:
  /// `tokenizer` outlives the object.
  explicit TextEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// Appends the tokens of `text` and returns how many of its bytes they stand for: with `last` all, else
  /// those of the pieces that what follows cannot change (TextSplitter). Special tokens are never made: their
  /// text is ordinary text. Throws kInvalidUsage on a byte that the vocabulary lacks.
  std::size_t encode(std::string_view text, bool last, std::vector<std::int32_t>& tokens);
  /// All of a text.
  std::vector<std::int32_t> encode(std::string_view text);

 private:
  void encode_piece(std::string_view piece, std::vector<std::int32_t>& tokens);

  const Tokenizer& tokenizer_;
  TextSplitter splitter_;
  std::unordered_map<std::string, std::vector<std::int32_t>> known_;
  std::vector<std::int32_t> piece_;
};

}  // namespace tombolo::trainer
