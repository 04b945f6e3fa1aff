// GPT-2's first step of tokenizing: text is cut into words, numbers, punctuation and white space, and no
// token spans two pieces.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

namespace tombolo::trainer {

/// One thread at a time.
class TextSplitter {
 public:
  /// Bytes that may have to follow a piece before it is certain where it ends: its end depends on at most the
  /// two characters after it, of four bytes each, of which the last may be cut off.
  static constexpr std::size_t kLookAhead = 16;

  TextSplitter();
  ~TextSplitter();
  TextSplitter(const TextSplitter&) = delete;
  TextSplitter& operator=(const TextSplitter&) = delete;

  /// Calls `piece` for every piece from the start of `text`, in order and without gaps, and returns the bytes
  /// that they cover. With `last`, that is all of it; else more text follows, and pieces that end in the last
  /// kLookAhead bytes are left, for the next call to begin with. Bytes that are not UTF-8 are pieces of one
  /// byte each. Takes time in proportion to the text.
  std::size_t split(std::string_view text, bool last, const std::function<void(std::string_view)>& piece);

 private:
  struct Patterns;
  std::unique_ptr<Patterns> patterns_;
};

}  // namespace tombolo::trainer
