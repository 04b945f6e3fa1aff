// Text files as a tokenizer's tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "trainer/data/joined_files.h"
#include "trainer/data/token_source.h"
#include "trainer/data/tokenizer.h"

namespace tombolo::trainer {

/// Text is encoded a window of this many bytes at a time: the memory that encoding takes is bounded by it. A
/// piece of text that fills a whole window is cut there.
inline constexpr std::size_t kEncodingWindow = std::size_t{1} << 20;

/// Encodes all of `text` and hands the tokens to `sink`, in order and in portions.
void encode_files(JoinedFiles& text, const Tokenizer& tokenizer, std::size_t window,
                  const std::function<void(std::span<const std::int32_t>)>& sink);

/// Encodes files once, when it is made; the tokens lie in an unnamed temporary file (in TMPDIR, else /tmp), 2
/// bytes each, or 4 where the vocabulary needs them, which is gone when the object or the process is.
class TokenizedText final : public TokenSource {
 public:
  /// Throws kInvalidUsage: a file cannot be opened, or holds a byte that the vocabulary lacks; kSystem.
  TokenizedText(const std::vector<std::string>& paths, const Tokenizer& tokenizer);

  std::uint64_t size() const noexcept override { return count_; }
  int vocabulary() const noexcept override { return vocabulary_; }
  std::string name() const override { return files_.name(); }
  std::string_view unit() const noexcept override { return "token"; }
  void read(std::uint64_t position, std::span<std::int32_t> tokens) override;

 private:
  void append(std::span<const std::int32_t> tokens);

  JoinedFiles files_;
  int vocabulary_;
  std::size_t token_bytes_;
  Descriptor cache_;
  std::uint64_t count_ = 0;
  std::vector<std::byte> raw_;  ///< of the last read or write
};

}  // namespace tombolo::trainer
