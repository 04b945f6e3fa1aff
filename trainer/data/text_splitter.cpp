#include "trainer/data/text_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"

namespace tombolo::trainer {
namespace {

// The pattern of GPT-2's tokenizer, with white space spelt out as Unicode's property White_Space: PCRE2's own
// \s takes one character more (U+180E), which lost the property in Unicode 6.3. Every character starts a
// match.
#define TOMBOLO_WHITE "\\p{Z}\\x{9}-\\x{d}\\x{85}"
constexpr const char* kPieces =
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^" TOMBOLO_WHITE "\\p{L}\\p{N}]+|[" TOMBOLO_WHITE
    "]+(?![^" TOMBOLO_WHITE "])|[" TOMBOLO_WHITE "]+";
#undef TOMBOLO_WHITE

struct Free {
  void operator()(pcre2_code* code) const noexcept { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const noexcept { pcre2_match_data_free(data); }
};

std::string error_text(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

std::unique_ptr<pcre2_code, Free> compile(const char* pattern) {
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &at, nullptr);
  if (code == nullptr) fail(Cause::kInternal, "the pattern of pieces, at {}: {}", at, error_text(error));
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // only faster: where there is none, the interpreter matches
  return std::unique_ptr<pcre2_code, Free>(code);
}

}  // namespace

struct TextSplitter::Patterns {
  Patterns() : pieces(compile(kPieces)), nothing(compile("")) {
    match.reset(pcre2_match_data_create(1, nullptr));
    if (!match) fail(Cause::kSystem, "no memory to match text");
  }

  /// Length of the longest prefix that is UTF-8. Matching even the empty pattern makes PCRE2 look.
  std::size_t valid_prefix(std::string_view text) {
    const int found = pcre2_match(nothing.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                                  match.get(), nullptr);
    if (found >= 0) return text.size();
    if (found > PCRE2_ERROR_UTF8_ERR1 || found < PCRE2_ERROR_UTF8_ERR21)
      fail(Cause::kInternal, "checking text of {} bytes: {}", text.size(), error_text(found));
    return pcre2_get_startchar(match.get());
  }

  /// End of the piece that begins at `begin` of valid text.
  std::size_t piece_end(std::string_view text, std::size_t begin) {
    const int found = pcre2_match(pieces.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), begin,
                                  PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    if (found < 0)
      fail(Cause::kInternal, "splitting text of {} bytes at {}: {}", text.size(), begin, error_text(found));
    return pcre2_get_ovector_pointer(match.get())[1];
  }

  std::unique_ptr<pcre2_code, Free> pieces, nothing;
  std::unique_ptr<pcre2_match_data, Free> match;
};

TextSplitter::TextSplitter() : patterns_(std::make_unique<Patterns>()) {}
TextSplitter::~TextSplitter() = default;

std::size_t TextSplitter::split(std::string_view text, bool last,
                                const std::function<void(std::string_view)>& piece) {
  const std::size_t certain = last ? text.size() : text.size() - std::min(text.size(), kLookAhead);
  std::size_t at = 0;
  while (at < certain) {
    const std::size_t valid_end = at + patterns_->valid_prefix(text.substr(at));
    const std::string_view valid = text.substr(0, valid_end);
    while (at < valid_end) {
      const std::size_t end = patterns_->piece_end(valid, at);
      if (end > certain) return at;
      piece(text.substr(at, end - at));
      at = end;
    }
    if (at < certain) {
      piece(text.substr(at, 1));
      ++at;
    }
  }
  return at;
}

}  // namespace tombolo::trainer
