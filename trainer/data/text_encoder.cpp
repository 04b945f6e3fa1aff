#include "trainer/data/text_encoder.h"

#include <utility>

namespace tombolo::trainer {
namespace {

// Most words of a text are among its commonest few thousand.
constexpr std::size_t kMostKnown = 1 << 16;
constexpr std::size_t kLongestKnown = 32;

}  // namespace

std::size_t TextEncoder::encode(std::string_view text, bool last, std::vector<std::int32_t>& tokens) {
  return splitter_.split(text, last, [&](std::string_view piece) { encode_piece(piece, tokens); });
}

std::vector<std::int32_t> TextEncoder::encode(std::string_view text) {
  std::vector<std::int32_t> tokens;
  encode(text, true, tokens);
  return tokens;
}

void TextEncoder::encode_piece(std::string_view piece, std::vector<std::int32_t>& tokens) {
  const bool short_piece = piece.size() <= kLongestKnown;
  std::string key;
  if (short_piece) {
    key = piece;
    if (const auto found = known_.find(key); found != known_.end()) {
      tokens.insert(tokens.end(), found->second.begin(), found->second.end());
      return;
    }
  }
  piece_.clear();
  for (const char byte : piece) piece_.push_back(tokenizer_.byte_token(static_cast<unsigned char>(byte)));
  tokenizer_.pairs().merge(piece_);
  tokens.insert(tokens.end(), piece_.begin(), piece_.end());
  if (!short_piece) return;
  if (known_.size() >= kMostKnown) known_.clear();
  known_.emplace(std::move(key), piece_);
}

}  // namespace tombolo::trainer
