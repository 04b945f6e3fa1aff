// What a model is trained on: a sequence of tokens that is read by position.
//
// trainer/data/ owns everything between a user's files and the rows of a training step: kinds of files,
// tokenizers, and the order of rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tombolo::trainer {

/// One thread at a time.
class TokenSource {
 public:
  virtual ~TokenSource() = default;

  /// In tokens.
  virtual std::uint64_t size() const noexcept = 0;
  /// The vocabulary to which the tokens belong: every token is from 0 to this less 1, where the file is
  /// what it says it is.
  virtual int vocabulary() const noexcept = 0;
  /// For messages: "data file corpus.txt".
  virtual std::string name() const = 0;
  /// What one token is, for messages: "byte", "token".
  virtual std::string_view unit() const noexcept = 0;
  /// Fills `tokens` from `position` on, which must not go beyond the end. Throws kSystem where the file
  /// cannot be read or has become shorter.
  virtual void read(std::uint64_t position, std::span<std::int32_t> tokens) = 0;
};

}  // namespace tombolo::trainer
