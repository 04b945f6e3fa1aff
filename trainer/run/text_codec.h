// Text as a model's tokens, and back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/data/tokenizer.h"

namespace tombolo::trainer {

/// By a tokenizer; without one tokens are bytes.
class TextCodec {
 public:
  /// `tokenizer`: path (see load_tokenizer()), or empty. Throws what load_tokenizer() throws.
  explicit TextCodec(const std::string& tokenizer);

  int vocabulary() const { return tokenizer_ ? tokenizer_->vocabulary() : 256; }
  std::vector<std::int32_t> encode(const std::string& text) const;
  std::string decode(std::span<const std::int32_t> tokens) const;

 private:
  std::optional<Tokenizer> tokenizer_;
};

}  // namespace tombolo::trainer
