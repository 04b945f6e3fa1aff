#include "trainer/run/text_codec.h"

#include "trainer/data/text_encoder.h"
#include "trainer/data/tokenizer_files.h"

namespace tombolo::trainer {

TextCodec::TextCodec(const std::string& tokenizer) {
  if (!tokenizer.empty()) tokenizer_.emplace(load_tokenizer(tokenizer));
}

std::vector<std::int32_t> TextCodec::encode(const std::string& text) const {
  if (tokenizer_) return TextEncoder(*tokenizer_).encode(text);
  std::vector<std::int32_t> tokens;
  for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

std::string TextCodec::decode(std::span<const std::int32_t> tokens) const {
  if (tokenizer_) return tokenizer_->decode(tokens);
  std::string text;
  for (const std::int32_t token : tokens) text.push_back(static_cast<char>(token));
  return text;
}

}  // namespace tombolo::trainer
